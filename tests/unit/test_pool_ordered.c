/* Stream-ordered calls that the pool serves, and the program's own memory pools when the device is
 * out of memory. */
#include "pool_test.h"

static const CUmemoryPool default_pool = (CUmemoryPool)0x100, other_pool = (CUmemoryPool)0x200;
static const CUstream stream = (CUstream)0x1000, other_stream = (CUstream)0x2000;

static void start_as(struct pool_config config, uint64_t capacity) {
    stop(NULL);
    config.ordered = true;
    start_with(&config, capacity);
    fake.default_pool = fake.current_pool = default_pool;
    fake.quiet = false; /* the device is busy */
}

static void start_in(enum pool_free_mode mode) {
    struct pool_config config = pool_defaults;
    config.free_mode = mode;
    start_as(config, 80 * GIB);
}

static bool try_alloc_in(CUdeviceptr *pointer, size_t bytes, CUmemoryPool from, CUstream in) {
    struct call_site key = site(1);
    bool served = pool_malloc_async(pool, pointer, bytes, from, in, &key);
    assert_true(pool_is_valid(pool));
    return served;
}

static CUdeviceptr alloc_in(size_t bytes, CUstream in) {
    CUdeviceptr pointer = 0;
    assert_true(try_alloc_in(&pointer, bytes, NULL, in));
    assert_true(fake_size(pointer) >= bytes);
    return pointer;
}

static bool try_free_in(CUdeviceptr pointer, CUstream in, CUresult *result) {
    bool served = pool_free_async(pool, pointer, in, result);
    assert_true(pool_is_valid(pool));
    return served;
}

static void free_in(CUdeviceptr pointer, CUstream in) {
    CUresult result = CUDA_ERROR_UNKNOWN;
    assert_true(try_free_in(pointer, in, &result));
    assert_int_equal(result, CUDA_SUCCESS);
}

static void without_the_option_both_are_the_drivers(void **state) {
    (void)state;
    CUdeviceptr pointer = 0, block = alloc(5000);
    CUresult result;
    fake.default_pool = fake.current_pool = default_pool;
    assert_false(try_alloc_in(&pointer, 5000, NULL, stream));
    assert_false(try_free_in(block, stream, &result));
}

static void a_stream_has_at_once_what_it_freed(void **state) {
    (void)state;
    for (int mode = POOL_FREE_SYNC; mode <= POOL_FREE_DEFER; mode++) {
        start_in((enum pool_free_mode)mode);
        CUdeviceptr block = alloc_in(5 * MIB, stream);
        free_in(block, stream);
        assert_int_equal(alloc_in(5 * MIB, stream), block);
        free_in(block, stream);
        assert_int_equal(alloc_in(4 * MIB, stream), block);
        assert_int_equal(fake.waits + fake.event_waits + fake.records, 0);
        assert_int_equal(stats_get(STATS_async_served), 3);
        assert_int_equal(stats_get(STATS_async_same_stream), 2);
    }
}

static void a_stream_gets_the_smallest_that_serves_of_what_it_freed(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr large = alloc_in(6 * MIB, stream), fitting = alloc_in(4 * MIB, stream);
    CUdeviceptr huge = alloc_in(64 * MIB, stream);
    free_in(fitting, stream);
    free_in(large, stream);
    free_in(huge, stream);
    assert_int_equal(alloc_in(4 * MIB, stream), fitting);
    assert_int_equal(alloc_in(4 * MIB, stream), large);
    assert_int_not_equal(alloc_in(4 * MIB, stream), huge); /* more than POOLCUDA_REUSE_RATIO */
}

static void another_stream_has_it_once_a_fence_has_passed(void **state) {
    (void)state;
    for (int mode = POOL_FREE_SYNC; mode <= POOL_FREE_DEFER; mode++) {
        start_in((enum pool_free_mode)mode);
        CUdeviceptr block = alloc_in(5 * MIB, stream);
        free_in(block, stream);
        assert_int_not_equal(alloc_in(5 * MIB, other_stream), block);
        assert_int_equal(fake.records, 1);
        fake.quiet = true;
        assert_int_equal(alloc_in(5 * MIB, other_stream), block);
        assert_int_equal(fake.waits + fake.event_waits, 0);
    }
}

static void its_own_stream_has_it_even_behind_a_fence(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr block = alloc_in(5 * MIB, stream);
    free_in(block, stream);
    alloc_in(5 * MIB, other_stream); /* makes the fence */
    assert_int_equal(alloc_in(5 * MIB, stream), block);
    fake.quiet = true;
    assert_int_not_equal(alloc_in(5 * MIB, other_stream), block); /* which has passed since */
}

static void cuda_malloc_has_it_once_a_fence_has_passed_and_does_not_wait(void **state) {
    (void)state;
    for (int mode = POOL_FREE_SYNC; mode <= POOL_FREE_DEFER; mode++) {
        start_in((enum pool_free_mode)mode);
        CUdeviceptr block = alloc(5 * MIB);
        free_in(block, stream);
        assert_int_not_equal(alloc(5 * MIB), block);
        assert_int_equal(fake.waits + fake.event_waits, 0);
        fake.quiet = true;
        assert_int_equal(alloc(5 * MIB), block);
    }
}

/* Once a site is known to miss its thread's cache asks the driver by itself. */
static void a_miss_of_a_threads_cache_does_not_overlook_it(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    alloc(5000);
    alloc(5000);
    CUdeviceptr block = alloc(5000);
    free_in(block, stream);
    fake.quiet = true;
    assert_int_equal(alloc(5000), block);
}

static void threads_default_streams_are_in_no_order(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr block = alloc_in(5 * MIB, CU_STREAM_PER_THREAD);
    free_in(block, CU_STREAM_PER_THREAD);
    assert_int_not_equal(alloc_in(5 * MIB, CU_STREAM_PER_THREAD), block);
    CUdeviceptr legacy = alloc_in(9 * MIB, CU_STREAM_LEGACY);
    free_in(legacy, CU_STREAM_LEGACY);
    assert_int_equal(alloc_in(9 * MIB, CU_STREAM_LEGACY), legacy);
}

static void a_handle_that_is_used_again_is_another_stream(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr unfenced = alloc_in(5 * MIB, stream), fenced = alloc_in(9 * MIB, stream);
    free_in(fenced, stream);
    alloc_in(9 * MIB, other_stream); /* makes the fence */
    free_in(unfenced, stream);
    pool_stream_ends(pool, stream);
    assert_int_not_equal(alloc_in(5 * MIB, stream), unfenced);
    assert_int_not_equal(alloc_in(9 * MIB, stream), fenced);
}

static void another_contexts_legacy_stream_is_another_stream(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    CUcontext first = fake.current;
    CUdeviceptr block = alloc_in(5 * MIB, CU_STREAM_LEGACY);
    fake.current = fake_context(0, 2);
    alloc_in(1000, CU_STREAM_LEGACY);
    free_in(block, CU_STREAM_LEGACY);
    fake.current = first;
    assert_int_not_equal(alloc_in(5 * MIB, CU_STREAM_LEGACY), block);
}

static void what_comes_from_elsewhere_is_the_drivers(void **state) {
    (void)state;
    CUdeviceptr pointer = 0;
    CUresult result;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr block = alloc_in(5000, stream);
    assert_true(try_alloc_in(&pointer, 5000, default_pool, stream));
    assert_false(try_alloc_in(&pointer, 5000, other_pool, stream));
    assert_false(try_alloc_in(&pointer, 0, NULL, stream));
    assert_false(try_alloc_in(NULL, 5000, NULL, stream));
    fake.stream_context = fake_context(1, 1);
    assert_false(try_alloc_in(&pointer, 5000, NULL, stream));
    assert_false(try_free_in(block, stream, &result));
    fake.stream_context = NULL;
    fake.current_pool = other_pool;
    assert_false(try_alloc_in(&pointer, 5000, NULL, stream));
    fake.default_pool = fake.current_pool = NULL;
    assert_false(try_alloc_in(&pointer, 5000, NULL, stream));
}

static void once_peers_have_access_it_is_the_drivers(void **state) {
    (void)state;
    CUdeviceptr pointer = 0;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr block = alloc_in(5000, stream);
    pool_reason_stays(pool, WAIT_REASON_peer);
    assert_false(try_alloc_in(&pointer, 5000, NULL, stream));
    free_in(block, stream);
}

static void during_a_capture_it_is_the_drivers(void **state) {
    (void)state;
    CUdeviceptr pointer = 0;
    CUresult result;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr block = alloc_in(5000, stream);
    pool_capture_began(pool, "cuStreamBeginCapture");
    assert_false(try_alloc_in(&pointer, 5000, NULL, stream));
    assert_false(try_free_in(block, stream, &result));
    pool_capture_ended(pool);
    free_in(block, stream);
}

static void second_frees_are_refused_and_what_is_not_the_pools_is_the_drivers(void **state) {
    (void)state;
    CUresult result = CUDA_SUCCESS;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr block = alloc_in(5000, stream), shared = alloc_in(5000, stream);
    free_in(block, stream);
    assert_true(try_free_in(block, stream, &result));
    assert_int_equal(result, CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(pool_free(pool, block), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stats_get(STATS_free_double), 2);
    assert_false(try_free_in(0, stream, &result));
    assert_false(try_free_in(0x5000, stream, &result));
    pool_taint(pool, shared, POOL_TAINT_IPC);
    assert_false(try_free_in(shared, stream, &result));
}

/* The driver would wait for the device, which a stream-ordered free does not. */
static void a_stream_ordered_free_gives_nothing_up(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    config.max_idle = (struct limit){.kind = LIMIT_BYTES, .bytes = 1 * MIB};
    start_as(config, 80 * GIB);
    CUdeviceptr one = alloc_in(8 * MIB, stream), other = alloc_in(16 * MIB, stream);
    free_in(one, stream);
    free_in(other, stream);
    assert_int_equal(fake.frees + fake.waits, 0);
    fake.quiet = true;
    alloc(20 * MIB);
    assert_int_equal(fake.frees, 2); /* with the device quiet nothing waits */
}

static void what_is_to_be_cleared_waits_for_a_fence(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    config.zero = true;
    start_as(config, 80 * GIB);
    CUdeviceptr block = alloc_in(5 * MIB, stream);
    free_in(block, stream);
    assert_int_not_equal(alloc_in(5 * MIB, stream), block);
    fake.quiet = true;
    assert_int_equal(alloc_in(5 * MIB, stream), block);
    assert_int_equal(fake.cleared, block);
}

static void without_memory_it_is_released(void **state) {
    (void)state;
    start_as(pool_defaults, 100 * MIB);
    free_in(alloc_in(60 * MIB, stream), stream);
    fake.quiet = true;
    alloc_in(80 * MIB, stream);
    assert_int_equal(fake.frees, 1);
    assert_int_equal(stats_get(STATS_oom_rescued), 1);
}

static void what_the_driver_refuses_to_release_still_waits_for_its_fence(void **state) {
    (void)state;
    CUdeviceptr pointer = 0;
    start_as(pool_defaults, 100 * MIB);
    CUdeviceptr block = alloc_in(60 * MIB, stream);
    free_in(block, stream);
    fake.free_result = CUDA_ERROR_UNKNOWN;
    assert_false(try_alloc_in(&pointer, 80 * MIB, NULL, stream));
    fake.free_result = CUDA_SUCCESS;
    assert_int_not_equal(alloc(30 * MIB), block); /* which would do */
    fake.quiet = true;
    assert_int_equal(alloc(60 * MIB), block);
}

static void it_goes_with_its_context(void **state) {
    (void)state;
    start_in(POOL_FREE_AUTO);
    CUdeviceptr kept = alloc_in(5 * MIB, stream), freed = alloc_in(9 * MIB, stream);
    free_in(freed, stream);
    pool_context_ending(pool, fake.current);
    assert_true(pool_is_valid(pool));
    assert_int_equal(fake_size(freed), 0);
    assert_int_not_equal(fake_size(kept), 0);
}

static void unused_memory_of_the_default_pool_is_given_back_before_an_error(void **state) {
    (void)state;
    CUdeviceptr pointer = 0;
    start_as(pool_defaults, 20 * MIB);
    fake.total = 100 * MIB;
    fake.quiet = true;
    fake.unused = 80 * MIB;
    release(alloc(10 * MIB));
    alloc(15 * MIB);
    assert_int_equal(fake.trims, 0); /* idle memory goes first */
    alloc(50 * MIB);
    assert_int_equal(fake.trims, 1);
    assert_int_equal(stats_get(STATS_oom_trimmed_bytes), 80 * MIB);
    assert_int_equal(try_alloc(&pointer, 50 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
}

static void for_other_calls_as_well(void **state) {
    (void)state;
    start_as(pool_defaults, 20 * MIB);
    fake.unused = 80 * MIB;
    assert_true(pool_make_room(pool, "cuStreamCreate", 0, POOL_ASKS_NO_MEMORY));
    assert_int_equal(fake.trims, 1);
    assert_false(pool_make_room(pool, "cuStreamCreate", 1, POOL_ASKS_NO_MEMORY));
    fake.unused = 80 * MIB;
    assert_false(
        pool_make_room(pool, "cuMemHostAlloc", 0, POOL_ASKS_OTHER_MEMORY)); /* no device memory */
    assert_int_equal(fake.trims, 2);
}

static void no_memory_pool_is_asked_during_a_capture(void **state) {
    (void)state;
    CUdeviceptr pointer = 0;
    start_as(pool_defaults, 20 * MIB);
    fake.unused = 80 * MIB;
    pool_capture_began(pool, "cuStreamBeginCapture");
    assert_int_equal(try_alloc(&pointer, 50 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_false(pool_make_room(pool, "cuMemAllocAsync", 0, POOL_ASKS_DEVICE_MEMORY));
    assert_int_equal(fake.trims, 0);
    pool_capture_ended(pool);
}

static void pools_that_the_program_makes_are_trimmed_until_they_end(void **state) {
    (void)state;
    const CUmemPoolProps here = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    const CUmemPoolProps elsewhere = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    start_as(pool_defaults, 20 * MIB);
    pool_memory_pool_created(pool, other_pool, &here);
    pool_memory_pool_created(pool, (CUmemoryPool)0x300, &elsewhere);
    pool_make_room(pool, "cuStreamCreate", 0, POOL_ASKS_NO_MEMORY);
    assert_int_equal(fake.trims, 2);
    pool_memory_pool_ends(pool, other_pool);
    pool_make_room(pool, "cuMemAllocAsync", 0,
                   POOL_ASKS_DEVICE_MEMORY); /* it is being destroyed just now */
    assert_int_equal(fake.trims, 2);
    pool_memory_pool_ended(pool);
    pool_make_room(pool, "cuStreamCreate", 0, POOL_ASKS_NO_MEMORY);
    assert_int_equal(fake.trims, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(without_the_option_both_are_the_drivers),
        TEST(a_stream_has_at_once_what_it_freed),
        TEST(a_stream_gets_the_smallest_that_serves_of_what_it_freed),
        TEST(another_stream_has_it_once_a_fence_has_passed),
        TEST(its_own_stream_has_it_even_behind_a_fence),
        TEST(cuda_malloc_has_it_once_a_fence_has_passed_and_does_not_wait),
        TEST(a_miss_of_a_threads_cache_does_not_overlook_it),
        TEST(threads_default_streams_are_in_no_order),
        TEST(a_handle_that_is_used_again_is_another_stream),
        TEST(another_contexts_legacy_stream_is_another_stream),
        TEST(what_comes_from_elsewhere_is_the_drivers),
        TEST(once_peers_have_access_it_is_the_drivers),
        TEST(during_a_capture_it_is_the_drivers),
        TEST(second_frees_are_refused_and_what_is_not_the_pools_is_the_drivers),
        TEST(a_stream_ordered_free_gives_nothing_up),
        TEST(what_is_to_be_cleared_waits_for_a_fence),
        TEST(without_memory_it_is_released),
        TEST(what_the_driver_refuses_to_release_still_waits_for_its_fence),
        TEST(it_goes_with_its_context),
        TEST(unused_memory_of_the_default_pool_is_given_back_before_an_error),
        TEST(for_other_calls_as_well),
        TEST(no_memory_pool_is_asked_during_a_capture),
        TEST(pools_that_the_program_makes_are_trimmed_until_they_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
