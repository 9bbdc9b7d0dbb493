/* On drivers without cuCtxRecordEvent, which are those before 12.5. */
#include "pool_test.h"

static struct driver old_driver;

static void start_in(enum pool_free_mode mode) {
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.free_mode = mode;
    start_with(&config, 80 * GIB);
    pool_destroy(pool);
    old_driver = *fake_driver();
    old_driver.ctx_record_event = NULL;
    pool = pool_create(&config, &old_driver);
    assert_non_null(pool);
}

static void without_context_events_the_legacy_stream_and_free_streams_are_fenced(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUdeviceptr block = alloc(1000);
    release(block);
    assert_int_equal(alloc(1000), block);
    assert_int_equal(fake.records, 1);
    assert_ptr_equal(fake.recorded_in, CU_STREAM_LEGACY);
    CUstream blocking = (CUstream)&fake.allocs, free_stream = (CUstream)&fake.frees;
    pool_stream_created(pool, blocking, false);
    pool_stream_created(pool, free_stream, true);
    release(block);
    assert_int_equal(alloc(1000), block);
    assert_int_equal(fake.records, 3);
    assert_ptr_equal(fake.recorded_in, free_stream);
}

static void a_destroyed_stream_leaves_its_last_work_in_every_later_fence(void **state) {
    (void)state;
    start_in(POOL_FREE_DEFER);
    CUstream stream = (CUstream)&fake.frees;
    pool_stream_created(pool, stream, true);
    CUdeviceptr block = alloc(1000), next = alloc(1000);
    release(block);
    pool_stream_ends(pool, stream);
    assert_ptr_equal(fake.recorded_in, stream);
    fake.quiet = false;
    assert_int_equal(alloc(1000), block);
    assert_int_equal(fake.event_waits, 2); /* what the stream left, and the fence itself */
    release(next);
    assert_int_equal(alloc(1000), next);
    assert_int_equal(fake.event_waits, 3); /* it has passed */
}

/* No event in a stream of the primary context's covers what a green one works at. */
static void beside_green_contexts_a_free_waits_for_its_context(void **state) {
    (void)state;
    for (enum pool_free_mode mode = POOL_FREE_SYNC; mode <= POOL_FREE_DEFER; mode++) {
        start_in(mode);
        alloc(9000);
        CUdeviceptr block = alloc(1000);
        pool_reason_stays(pool, WAIT_REASON_green);
        fake.waits = 0;
        release(block);
        assert_int_equal(fake.waits, 1);
    }
}

static void an_error_in_a_green_context_whose_primary_one_the_driver_does_not_name_loses_that_one(
    void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    old_driver.stream_get_ctx_v2 = NULL;
    CUcontext primary = fake.current;
    release(alloc(1000));
    pool_reason_stays(pool, WAIT_REASON_green);
    fake.current = fake_context(0, 2);
    fake.lost[1] = primary;
    lose_current_context();
    fake.current = primary;
    uint64_t passed = stats_get(STATS_passed_errors);
    alloc(1000);
    assert_int_equal(stats_get(STATS_passed_errors), passed + 1);
}

#define ONE  ((CUstream)&fake.allocs)
#define TWO  ((CUstream)&fake.frees)
#define FREE ((CUstream)&fake.waits)

static void free_one(void) {
    release(alloc(1000));
}

static void a_free_waits_for_an_event_of_the_legacy_stream_and_of_each_free_one(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    alloc(9000);
    free_one();
    assert_int_equal(fake.records, 1);
    assert_ptr_equal(fake.recorded_in, CU_STREAM_LEGACY);
    pool_stream_created(pool, FREE, true);
    pool_stream_created(pool, ONE, false);
    free_one();
    assert_int_equal(fake.records, 3);
    assert_ptr_equal(fake.recorded_in, FREE);
    assert_int_equal(fake.event_waits, 3);
    assert_int_equal(fake.waits, 0);
}

/* An event in the legacy stream would put later work of one of them behind that of the other. */
static void beside_several_blocking_streams_a_free_waits_for_its_context(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    alloc(9000);
    pool_stream_created(pool, ONE, false);
    pool_stream_created(pool, TWO, false);
    free_one();
    assert_int_equal(fake.records, 0);
    assert_int_equal(fake.waits, 1);
}

static void beside_streams_of_threads_own_a_free_waits_for_its_context(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    alloc(9000);
    assert_true(pool_looks_for_per_thread());
    pool_per_thread_used(pool);
    assert_false(pool_looks_for_per_thread());
    free_one();
    assert_int_equal(fake.records, 0);
    assert_int_equal(fake.waits, 1);
}

static void a_free_waits_once_for_what_a_destroyed_stream_has_left(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    alloc(9000);
    pool_stream_created(pool, FREE, true);
    pool_stream_ends(pool, FREE);
    assert_int_equal(fake.records, 1);
    free_one();
    assert_int_equal(fake.event_waits, 2);
    free_one();
    assert_int_equal(fake.event_waits, 3);
    assert_int_equal(fake.waits, 0);
}

static void a_free_waits_for_nothing_that_another_contexts_stream_has_left(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    CUcontext other = fake_context(0, 2), own = fake.current;
    alloc(9000);
    fake.current = other;
    alloc(9000);
    pool_stream_created(pool, FREE, true);
    pool_stream_ends(pool, FREE);
    fake.current = own;
    free_one();
    assert_int_equal(fake.event_waits, 1);
}

/* Its event is recorded in no capture, as the stream itself is not captured. */
static void a_stream_that_ends_beside_a_capture_leaves_its_event(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    alloc(9000);
    pool_stream_created(pool, FREE, true);
    pool_capture_began(pool, "cuStreamBeginCapture");
    pool_stream_ends(pool, FREE);
    pool_capture_ended(pool);
    assert_int_equal(fake.records, 1);
    free_one();
    assert_int_equal(fake.event_waits, 2);
    assert_int_equal(fake.waits, 0);
}

static void where_no_event_can_be_recorded_a_free_waits_for_its_context(void **state) {
    (void)state;
    start_in(POOL_FREE_SYNC);
    alloc(9000);
    fake.record_result = CUDA_ERROR_OUT_OF_MEMORY;
    free_one();
    assert_int_equal(fake.waits, 1);
    fake.record_result = CUDA_SUCCESS;
    free_one();
    assert_int_equal(fake.waits, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(without_context_events_the_legacy_stream_and_free_streams_are_fenced),
        TEST(beside_green_contexts_a_free_waits_for_its_context),
        TEST(an_error_in_a_green_context_whose_primary_one_the_driver_does_not_name_loses_that_one),
        TEST(a_destroyed_stream_leaves_its_last_work_in_every_later_fence),
        TEST(a_free_waits_for_an_event_of_the_legacy_stream_and_of_each_free_one),
        TEST(beside_several_blocking_streams_a_free_waits_for_its_context),
        TEST(beside_streams_of_threads_own_a_free_waits_for_its_context),
        TEST(a_free_waits_once_for_what_a_destroyed_stream_has_left),
        TEST(a_free_waits_for_nothing_that_another_contexts_stream_has_left),
        TEST(a_stream_that_ends_beside_a_capture_leaves_its_event),
        TEST(where_no_event_can_be_recorded_a_free_waits_for_its_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
