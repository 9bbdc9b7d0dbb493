/* Pinned host memory in the pool: kept apart from device memory and by its flags, bounded by the
 * machine's memory, and reused only when no work can touch it any more. */
#include "peers/own_open.h"
#include "pool_test.h"

#include <string.h>

enum { WRITE_COMBINED = CU_MEMHOSTALLOC_WRITECOMBINED, PORTABLE = CU_MEMHOSTALLOC_PORTABLE };

static const uint64_t machine = 16 * GIB;

static void start_as(enum pool_free_mode mode, bool zero, bool host) {
    struct pool_config config = pool_defaults;
    config.free_mode = mode;
    config.zero = zero;
    config.host = host;
    config.host_memory = machine;
    start_with(&config, 80 * GIB);
    fake.host_capacity = machine;
}

static int start_with_host(void **state) {
    (void)state;
    start_as(POOL_FREE_AUTO, false, true);
    return 0;
}

static CUresult try_alloc_host(void **memory, size_t bytes, unsigned int flags, uintptr_t number) {
    struct call_site key = site(number);
    CUresult result = pool_malloc_host(pool, memory, bytes, flags, &key);
    assert_true(pool_is_valid(pool));
    return result;
}

static void *alloc_host(size_t bytes, unsigned int flags) {
    void *memory = NULL;
    assert_int_equal(try_alloc_host(&memory, bytes, flags, 1), CUDA_SUCCESS);
    assert_true(fake_size((CUdeviceptr)(uintptr_t)memory) >= bytes);
    return memory;
}

static void release_host(void *memory) {
    assert_int_equal(pool_free_host(pool, memory), CUDA_SUCCESS);
    assert_true(pool_is_valid(pool));
}

static void what_a_site_has_freed_serves_it_again(void **state) {
    (void)state;
    void *memory = alloc_host(64 * MIB, 0);
    for (int i = 0; i < 10; i++) {
        release_host(memory);
        assert_ptr_equal(alloc_host(64 * MIB, 0), memory);
    }
    assert_int_equal(fake.host_allocs, 1);
    assert_int_equal(stats_get(STATS_host_calls), 11);
    assert_int_equal(stats_get(STATS_host_hits), 10);
    assert_int_equal(stats_get(STATS_host_frees), 10);
}

static void flags_are_part_of_the_key(void **state) {
    (void)state;
    void *combined = alloc_host(MIB, WRITE_COMBINED);
    assert_int_equal(fake.host_flags, WRITE_COMBINED);
    release_host(combined);
    void *portable = alloc_host(MIB, PORTABLE);
    assert_int_equal(fake.host_flags, PORTABLE);
    release_host(portable);
    void *plain = alloc_host(MIB, POOL_HOST_PLAIN);
    assert_int_equal(fake.host_flags, FAKE_PLAIN);
    release_host(plain);
    assert_ptr_equal(alloc_host(MIB, WRITE_COMBINED), combined);
    assert_ptr_equal(alloc_host(MIB, PORTABLE), portable);
    assert_ptr_equal(alloc_host(MIB, POOL_HOST_PLAIN), plain);
    assert_int_equal(fake.host_allocs, 3);
}

static void flags_that_we_do_not_know_are_left_to_the_driver(void **state) {
    (void)state;
    release_host(alloc_host(MIB, 1 << 8));
    alloc_host(MIB, 1 << 8);
    assert_int_equal(fake.host_allocs, 2);
}

static void requests_are_rounded_to_the_hosts_pages(void **state) {
    (void)state;
    void *memory = alloc_host(2 * MIB + 1, 0);
    assert_int_equal(fake_size((CUdeviceptr)(uintptr_t)memory), 2 * MIB + 4096);
}

static void each_kind_is_freed_by_its_own_function(void **state) {
    (void)state;
    void *memory = alloc_host(MIB, 0);
    CUdeviceptr device = alloc(MIB);
    assert_int_equal(try_free((CUdeviceptr)(uintptr_t)memory), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(pool_free_host(pool, (void *)(uintptr_t)device), CUDA_ERROR_INVALID_VALUE);
    release_host(memory);
    release(device);
    assert_int_equal(try_free((CUdeviceptr)(uintptr_t)memory), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(fake.frees + fake.host_frees, 0);
}

static void a_second_free_is_refused(void **state) {
    (void)state;
    void *memory = alloc_host(MIB, 0);
    release_host(memory);
    assert_int_equal(pool_free_host(pool, memory), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(pool_free_host(pool, NULL), CUDA_SUCCESS);
}

/* A wait for device memory may be owed, as work in its new life comes after the old by itself. The
 * host comes after nothing. */
static void a_free_waits_even_where_others_owe_it(void **state) {
    (void)state;
    alloc(MIB);
    void *memory = alloc_host(MIB, 0), *other = alloc_host(MIB, 0);
    release(alloc(MIB));
    assert_int_equal(fake.event_waits, 0);
    assert_true(wait_is_owed());
    release_host(memory);
    assert_int_equal(fake.event_waits, 1);
    release_host(other);
    assert_int_equal(fake.event_waits, 2);
}

static void both_kinds_of_a_context_are_one_context(void **state) {
    (void)state;
    alloc(MIB);
    release_host(alloc_host(MIB, 0));
    assert_int_equal(fake.event_waits, 1);
    release(alloc(MIB));
    assert_true(wait_is_owed()); /* with several contexts it waits */
}

static void what_is_deferred_is_handed_out_once_a_fence_has_passed(void **state) {
    (void)state;
    stop(NULL);
    start_as(POOL_FREE_DEFER, false, true);
    alloc(MIB);
    void *memory = alloc_host(MIB, 0);
    release_host(memory);
    assert_int_equal(fake.waits, 0);
    assert_int_equal(fake.records, 0);
    fake.quiet = false;
    assert_ptr_equal(alloc_host(MIB, 0), memory);
    assert_int_equal(fake.records, 1); /* of both kinds' one context */
    assert_int_equal(fake.event_waits, 1);
}

static void out_of_host_memory_what_is_idle_is_given_back_first(void **state) {
    (void)state;
    release_host(alloc_host(512 * MIB, PORTABLE));
    release_host(alloc_host(256 * MIB, WRITE_COMBINED));
    fake.host_capacity = 1 * GIB;
    alloc_host(GIB, 0);
    assert_int_equal(stats_get(STATS_oom_rescued), 1);
    assert_int_equal(fake.host_frees, 2);
    void *memory = NULL;
    assert_int_equal(try_alloc_host(&memory, MIB, 0, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_null(memory);
}

/* There are devices whose memory is the host's. */
static void idle_host_memory_goes_before_a_device_is_out_of_memory(void **state) {
    (void)state;
    alloc(GIB);
    release_host(alloc_host(MIB, 0));
    CUdeviceptr pointer;
    assert_int_equal(try_alloc(&pointer, 79 * GIB + MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(fake.host_used, 0);
}

static void idle_host_memory_goes_before_any_other_call_is_out_of_memory(void **state) {
    (void)state;
    release_host(alloc_host(MIB, 0));
    assert_true(pool_make_room(pool, "cuMemHostRegister", 0, POOL_ASKS_OTHER_MEMORY));
    assert_int_equal(fake.host_used, 0);
    assert_false(pool_make_room(pool, "cuMemHostRegister", 1, POOL_ASKS_OTHER_MEMORY));
}

static void of_the_machines_memory_a_sixteenth_lies_idle_at_most(void **state) {
    (void)state;
    enum { BLOCKS = 8 };
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = alloc_host(512 * MIB, 0);
    for (int i = 0; i < BLOCKS; i++) {
        release_host(blocks[i]);
        assert_true(stats_get(STATS_host_idle_bytes) <= machine / 16);
    }
    assert_int_equal(stats_get(STATS_host_idle_bytes), machine / 16);
    assert_int_equal(stats_get(STATS_host_held_bytes), machine / 16);
    assert_int_equal(stats_get(STATS_peak_host_held_bytes), 4 * GIB);
}

static void devices_figures_know_nothing_of_it(void **state) {
    (void)state;
    struct pool_usage figures;
    release(alloc(MIB));
    alloc_host(3 * MIB, 0);
    release_host(alloc_host(8 * MIB, 0));
    pool_usage(pool, POOL_ALL_DEVICES, &figures);
    assert_int_equal(figures.held, MIB);
    assert_int_equal(figures.allocations, 1);
    assert_int_equal(stats_get(STATS_held_bytes), figures.held);
    assert_int_equal(stats_get(STATS_host_in_use_bytes), 3 * MIB);
    assert_int_equal(stats_get(STATS_host_idle_bytes), 8 * MIB);
}

static void all_of_a_contexts_kinds_end_with_it(void **state) {
    (void)state;
    CUdeviceptr device = alloc(MIB);
    void *live = alloc_host(MIB, 0);
    release_host(alloc_host(MIB, PORTABLE));
    release_host(alloc_host(MIB, WRITE_COMBINED));
    pool_context_ending(pool, fake.current);
    assert_true(pool_is_valid(pool));
    assert_int_equal(fake.host_frees, 2);
    assert_int_equal(stats_get(STATS_host_held_bytes), 0);
    assert_int_equal(try_free(device), CUDA_SUCCESS); /* the driver's to say */
    assert_int_equal(pool_free_host(pool, live), CUDA_SUCCESS);
    assert_int_equal(fake.host_frees, 3);
}

static void a_primary_contexts_host_memory_ends_with_it(void **state) {
    (void)state;
    release_host(alloc_host(MIB, 0));
    pool_primary_ending(pool, 1);
    assert_int_equal(fake.host_frees, 0);
    pool_primary_ending(pool, 0);
    assert_int_equal(fake.host_frees, 1);
}

static void nothing_is_pooled_in_a_lost_context_of_whatever_kind(void **state) {
    (void)state;
    CUdeviceptr device = alloc(MIB);
    release_host(alloc_host(MIB, 0));
    lose_current_context();
    alloc_host(MIB, 0);
    assert_int_equal(fake.host_allocs, 2);
    release(device);
    assert_int_equal(fake.frees, 1);
}

static void it_passes_through_during_a_capture(void **state) {
    (void)state;
    void *memory = alloc_host(MIB, 0);
    pool_capture_began(pool, "cuStreamBeginCapture");
    release_host(memory);
    assert_int_equal(fake.host_frees, 1);
    alloc_host(MIB, 0);
    assert_int_equal(fake.host_allocs, 2);
    pool_capture_ended(pool);
}

static void it_is_cleared_where_reused_memory_is(void **state) {
    (void)state;
    stop(NULL);
    start_as(POOL_FREE_AUTO, true, true);
    unsigned char *memory = alloc_host(MIB, 0);
    memset(memory, 0xab, MIB);
    release_host(memory);
    assert_ptr_equal(alloc_host(MIB, 0), memory);
    assert_int_equal(memory[0], 0); /* and so on: */
    assert_memory_equal(memory, memory + 1, MIB - 1);
    assert_int_equal(fake.cleared_bytes, 0); /* by the host, not by a device */
}

static void trimming_everything_includes_it_but_not_a_devices_memory(void **state) {
    (void)state;
    size_t released;
    release(alloc(2 * MIB));
    release_host(alloc_host(MIB, 0));
    pool_give_up(pool, 0, SIZE_MAX, false, &released);
    assert_int_equal(released, 2 * MIB);
    assert_int_equal(fake.host_frees, 0);
    pool_give_up(pool, -1, SIZE_MAX, false, &released);
    assert_int_equal(released, MIB);
    assert_int_equal(fake.host_frees, 1);
}

static void it_can_be_left_to_the_driver(void **state) {
    (void)state;
    stop(NULL);
    start_as(POOL_FREE_AUTO, false, false);
    release_host(alloc_host(MIB, 0));
    release_host(alloc_host(MIB, 0));
    assert_int_equal(fake.host_allocs, 2);
    assert_int_equal(fake.host_frees, 2);
}

static void a_fork_forgets_it(void **state) {
    (void)state;
    void *memory = alloc_host(MIB, 0);
    go_on_as_child();
    assert_true(pool_is_valid(pool));
    release_host(memory); /* by the driver */
    assert_int_equal(fake.host_frees, 1);
}

static uint64_t now_ns;
static uint64_t test_clock(void) {
    return now_ns;
}

static void it_decays_by_itself(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.host = true;
    config.host_memory = machine;
    config.idle_decay = 60;
    config.clock = test_clock;
    start_with(&config, 80 * GIB);
    fake.host_capacity = machine;
    now_ns = 1000000000;
    release_host(alloc_host(MIB, 0)); /* serves below: else the large block would be needed */
    release_host(alloc_host(32 * MIB, 0));
    for (int period = 0; period < 3; period++) {
        now_ns += (uint64_t)61 * 1000000000;
        for (int i = 0; i < 40; i++)
            release_host(alloc_host(MIB, 0));
    }
    assert_true(stats_get(STATS_host_held_bytes) < 32 * MIB);
}

#define TEST_WITH_HOST(name) cmocka_unit_test_setup_teardown(name, start_with_host, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST_WITH_HOST(what_a_site_has_freed_serves_it_again),
        TEST_WITH_HOST(flags_are_part_of_the_key),
        TEST_WITH_HOST(flags_that_we_do_not_know_are_left_to_the_driver),
        TEST_WITH_HOST(requests_are_rounded_to_the_hosts_pages),
        TEST_WITH_HOST(each_kind_is_freed_by_its_own_function),
        TEST_WITH_HOST(a_second_free_is_refused),
        TEST_WITH_HOST(a_free_waits_even_where_others_owe_it),
        TEST_WITH_HOST(both_kinds_of_a_context_are_one_context),
        TEST_WITH_HOST(what_is_deferred_is_handed_out_once_a_fence_has_passed),
        TEST_WITH_HOST(out_of_host_memory_what_is_idle_is_given_back_first),
        TEST_WITH_HOST(idle_host_memory_goes_before_a_device_is_out_of_memory),
        TEST_WITH_HOST(idle_host_memory_goes_before_any_other_call_is_out_of_memory),
        TEST_WITH_HOST(of_the_machines_memory_a_sixteenth_lies_idle_at_most),
        TEST_WITH_HOST(devices_figures_know_nothing_of_it),
        TEST_WITH_HOST(all_of_a_contexts_kinds_end_with_it),
        TEST_WITH_HOST(a_primary_contexts_host_memory_ends_with_it),
        TEST_WITH_HOST(nothing_is_pooled_in_a_lost_context_of_whatever_kind),
        TEST_WITH_HOST(it_passes_through_during_a_capture),
        TEST_WITH_HOST(it_is_cleared_where_reused_memory_is),
        TEST_WITH_HOST(trimming_everything_includes_it_but_not_a_devices_memory),
        TEST_WITH_HOST(it_decays_by_itself),
        TEST_WITH_HOST(it_can_be_left_to_the_driver),
        TEST_WITH_HOST(a_fork_forgets_it),
    };
    return cmocka_run_group_tests_name("pool_host", tests, NULL, NULL);
}
