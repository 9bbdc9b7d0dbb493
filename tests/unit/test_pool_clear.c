/* POOLCUDA_ZERO: a block is cleared before it serves again, behind nothing but what precedes its
 * free. */
#include "pool_test.h"

static const CUstream own = (CUstream)0x5000;

static void start_clearing(enum pool_free_mode mode) {
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.zero = true;
    config.free_mode = mode;
    start_with(&config, 80 * GIB);
    fake.stream = own;
}

static CUdeviceptr leave_idle(void) {
    alloc_at(MIB, 2); /* so that no free is the last one's */
    CUdeviceptr idle = alloc(5 * MIB);
    release(idle);
    return idle;
}

/* What other threads do meanwhile: the context ends, and one in its place is used. */
static void end_context_and_use_anew(void) {
    fake.on_wait = NULL;
    pool_context_ending(pool, fake.current);
    for (int i = 0; i < 4; i++)
        alloc(3 * MIB);
}

static void an_address_is_the_requests_own_though_its_context_ends_meanwhile(void **state) {
    (void)state;
    start_clearing(POOL_FREE_AUTO);
    fake.stream = NULL; /* the context is waited for */
    CUdeviceptr idle = leave_idle();
    fake.on_wait = end_context_and_use_anew;
    CUdeviceptr pointer = 0;
    assert_int_equal(try_alloc(&pointer, 5 * MIB, 1), CUDA_SUCCESS);
    assert_null(fake.on_wait);
    assert_int_equal(pointer, idle);
}

static void the_host_waits_for_the_memset_and_for_no_context(void **state) {
    (void)state;
    start_clearing(POOL_FREE_AUTO);
    CUdeviceptr idle = leave_idle();
    pool_reason_begins(pool, WAIT_REASON_stream); /* whatever else is known of streams */
    fake.waits = 0;
    assert_int_equal(alloc(5 * MIB - 100), idle);
    assert_int_equal(fake.cleared, idle);
    assert_int_equal(fake.cleared_bytes, 5 * MIB - 100);
    assert_ptr_equal(fake.cleared_in, own);
    assert_int_equal(fake.stream_flags, CU_STREAM_NON_BLOCKING);
    assert_ptr_equal(fake.recorded_in, own);
    assert_ptr_equal(fake.waited_for, fake.recorded);
    assert_int_equal(fake.event_waits, 1);
    assert_int_equal(fake.waits, 0);
}

static void one_stream_serves_all_memory_of_a_context(void **state) {
    (void)state;
    start_clearing(POOL_FREE_AUTO);
    CUdeviceptr idle = leave_idle();
    assert_int_equal(alloc(5 * MIB), idle);
    release(idle);
    fake.stream = NULL; /* no other can be created */
    fake.cleared_in = NULL;
    assert_int_equal(alloc(5 * MIB), idle);
    assert_ptr_equal(fake.cleared_in, own);
}

static void without_a_stream_the_context_is_waited_for(void **state) {
    (void)state;
    start_clearing(POOL_FREE_AUTO);
    fake.stream = NULL;
    CUdeviceptr idle = leave_idle();
    fake.waits = 0;
    assert_int_equal(alloc(5 * MIB), idle);
    assert_int_equal(fake.cleared, idle);
    assert_true(fake.waits > 0);
}

static void begin_capture(void) {
    fake.on_query = NULL;
    pool_capture_began(pool, "cuStreamBeginCapture_v2");
}

static void what_cannot_be_cleared_as_a_capture_has_begun_is_left_idle(void **state) {
    (void)state;
    start_clearing(POOL_FREE_DEFER);
    CUdeviceptr idle = leave_idle();
    uint64_t allocs = stats_get(STATS_driver_allocs), hits = stats_get(STATS_malloc_hits);
    fake.on_query = begin_capture; /* another thread's, as it is seen that the block may serve */
    assert_int_not_equal(alloc(5 * MIB), idle);
    assert_int_equal(fake.cleared, 0);
    assert_int_equal(stats_get(STATS_driver_allocs), allocs + 1);
    assert_int_equal(stats_get(STATS_malloc_hits), hits);
    pool_capture_ended(pool);
    assert_int_equal(alloc(5 * MIB), idle);
    assert_int_equal(fake.cleared, idle);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(an_address_is_the_requests_own_though_its_context_ends_meanwhile),
        TEST(the_host_waits_for_the_memset_and_for_no_context),
        TEST(one_stream_serves_all_memory_of_a_context),
        TEST(without_a_stream_the_context_is_waited_for),
        TEST(what_cannot_be_cleared_as_a_capture_has_begun_is_left_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
