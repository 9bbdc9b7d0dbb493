/* What the pool does for other processes on the device, and has them do. */
#include "pool_test.h"

static int asked;
static size_t asked_for[4], others_have;
static uint8_t asked_uuid;

/* What others have is in the capacity that the device lacks. */
static enum pool_help ask(struct pool *asking, const uint8_t uuid[STATS_UUID], size_t bytes,
                          uint64_t until_ns) {
    (void)until_ns;
    assert_ptr_equal(asking, pool);
    lock_check_none();
    size_t given = others_have;
    if (asked < 4)
        asked_for[asked] = bytes;
    asked++;
    asked_uuid = uuid[0];
    others_have = 0;
    fake.capacity += given;
    return given ? POOL_HELP_GIVEN : POOL_HELP_NONE;
}

static int comes_after; /* asking so often the dead one's memory is there */

static enum pool_help ask_one_that_ends(struct pool *asking, const uint8_t uuid[STATS_UUID],
                                        size_t bytes, uint64_t until_ns) {
    (void)asking, (void)uuid, (void)bytes, (void)until_ns;
    if (asked++ == comes_after)
        fake.capacity += 100 * MIB;
    return asked == 1 ? POOL_HELP_COMES : POOL_HELP_NONE;
}

static int start_asking(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    config.max_idle = (struct limit){.kind = LIMIT_PERCENT, .percent = 100};
    config.ask_others = ask;
    asked = 0;
    others_have = 0;
    start_with(&config, 100 * MIB);
    fake.total = 200 * MIB;
    return 0;
}

static void others_are_asked_when_nothing_of_its_own_is_left(void **state) {
    (void)state;
    CUdeviceptr pointer;
    release(alloc(60 * MIB));
    alloc_at(80 * MIB, 2); /* what is idle makes room */
    assert_int_equal(asked, 0);
    others_have = 40 * MIB;
    alloc_at(50 * MIB, 3);
    assert_int_equal(asked, 1);
    assert_int_equal(asked_for[0], 50 * MIB);
    assert_int_equal(asked_uuid, 1);
    assert_int_equal(stats_get(STATS_oom_rescued), 2);
    assert_int_equal(try_alloc(&pointer, 50 * MIB, 4), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(asked, 2);
}

static void what_did_not_suffice_is_asked_for_once_more_in_full(void **state) {
    (void)state;
    CUdeviceptr pointer;
    others_have = 10 * MIB;
    assert_int_equal(try_alloc(&pointer, 150 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(asked, 2);
    assert_true(asked_for[1] == SIZE_MAX);
}

static void nobody_is_asked_for_what_could_not_fit_or_is_the_hosts(void **state) {
    (void)state;
    CUdeviceptr pointer;
    alloc(90 * MIB);
    others_have = 100 * MIB;
    assert_int_equal(try_alloc(&pointer, 111 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_false(pool_make_room(pool, "cuMemHostAlloc", 0, POOL_ASKS_OTHER_MEMORY));
    assert_false(pool_make_room(pool, "cuMemAllocHost_v2", 0, POOL_ASKS_OTHER_MEMORY));
    assert_int_equal(asked, 0);
    assert_int_equal(try_alloc(&pointer, 110 * MIB, 1), CUDA_SUCCESS);
}

static void nobody_is_asked_during_a_capture(void **state) {
    (void)state;
    CUdeviceptr pointer;
    alloc(90 * MIB);
    others_have = 100 * MIB;
    pool_capture_began(pool, "cuStreamBeginCapture");
    assert_int_equal(try_alloc(&pointer, 50 * MIB, 2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_false(pool_make_room(pool, "cuMemAllocAsync", 0, POOL_ASKS_DEVICE_MEMORY));
    assert_int_equal(asked, 0);
    pool_capture_ended(pool);
    assert_int_equal(try_alloc(&pointer, 50 * MIB, 2), CUDA_SUCCESS);
    assert_int_equal(asked, 1);
}

static void other_calls_that_lack_memory_get_that_of_others_too(void **state) {
    (void)state;
    alloc(90 * MIB);
    assert_false(pool_make_room(pool, "cuStreamCreate", 0, POOL_ASKS_NO_MEMORY));
    others_have = MIB;
    assert_true(pool_make_room(pool, "cuStreamCreate", 0, POOL_ASKS_NO_MEMORY));
    assert_int_equal(asked, 2);
    for (unsigned attempt = 1; attempt < 100; attempt++) {
        others_have = MIB;
        pool_make_room(pool, "cuStreamCreate", attempt, POOL_ASKS_NO_MEMORY);
    }
    assert_true(asked < 10); /* a call that fails for ever asks for a while only */
}

static void what_a_process_had_that_ends_comes_in_a_moment(void **state) {
    (void)state;
    alloc(90 * MIB);
    pool->config.ask_others = ask_one_that_ends;
    comes_after = 3;
    CUdeviceptr pointer;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    while (result != CUDA_SUCCESS && asked <= comes_after) { /* its time may be up before */
        asked = 0;
        result = try_alloc(&pointer, 50 * MIB, 2);
    }
    assert_int_equal(result, CUDA_SUCCESS);
    assert_int_equal(asked, 4);
    assert_int_equal(stats_get(STATS_oom_rescued), 1);
}

static void what_a_process_had_that_ended_is_not_waited_for_for_ever(void **state) {
    (void)state;
    CUdeviceptr pointer;
    alloc(90 * MIB);
    pool->config.ask_others = ask_one_that_ends;
    comes_after = -1;
    assert_int_equal(try_alloc(&pointer, 50 * MIB, 2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(asked > 1);
}

/* --- giving up --- */

static size_t give_up(int device, size_t bytes, bool may_wait, bool expected_complete) {
    size_t released;
    bool complete = pool_give_up(pool, device, bytes, may_wait, &released);
    assert_true(pool_is_valid(pool));
    assert_int_equal(complete, expected_complete);
    return released;
}

static void leave_idle(size_t bytes, uintptr_t number) {
    release(alloc_at(bytes, number));
}

static void idle_memory_is_given_up_largest_first(void **state) {
    (void)state;
    fake.quiet = true;
    leave_idle(10 * MIB, 1);
    leave_idle(30 * MIB, 2);
    assert_int_equal(give_up(0, 5 * MIB, false, true), 30 * MIB);
    assert_int_equal(give_up(1, SIZE_MAX, false, true), 0);
    assert_int_equal(give_up(-1, SIZE_MAX, false, true), 10 * MIB);
    assert_int_equal(give_up(-1, SIZE_MAX, false, true), 0);
    assert_int_equal(fake.used, 0);
}

static void where_a_free_would_wait_nothing_is_given_up_but_at_a_free(void **state) {
    (void)state;
    leave_idle(10 * MIB, 1);
    fake.quiet = false;
    assert_int_equal(give_up(0, SIZE_MAX, false, false), 0);
    assert_int_equal(fake.used, 10 * MIB);
    assert_int_equal(give_up(0, SIZE_MAX, true, true), 10 * MIB);
}

static void at_a_free_no_other_context_is_waited_for(void **state) {
    (void)state;
    leave_idle(10 * MIB, 1);
    fake.current = fake_context(1, 1);
    leave_idle(20 * MIB, 2);
    fake.quiet = false;
    assert_int_equal(give_up(-1, SIZE_MAX, true, false), 20 * MIB);
    fake.quiet = true;
    assert_int_equal(give_up(-1, SIZE_MAX, true, true), 10 * MIB);
    assert_ptr_equal(fake.current, fake_context(1, 1));
}

static void during_a_capture_nothing_is_given_up(void **state) {
    (void)state;
    fake.quiet = true;
    leave_idle(10 * MIB, 1);
    pool_capture_began(pool, "cuStreamBeginCapture");
    int records = fake.records;
    assert_int_equal(give_up(0, SIZE_MAX, true, true), 0);
    assert_int_equal(fake.records, records);
    pool_capture_ended(pool);
}

int main(void) {
#define ASKING(name) cmocka_unit_test_setup_teardown(name, start_asking, stop)
    const struct CMUnitTest tests[] = {
        ASKING(others_are_asked_when_nothing_of_its_own_is_left),
        ASKING(what_did_not_suffice_is_asked_for_once_more_in_full),
        ASKING(nobody_is_asked_for_what_could_not_fit_or_is_the_hosts),
        ASKING(nobody_is_asked_during_a_capture),
        ASKING(other_calls_that_lack_memory_get_that_of_others_too),
        ASKING(what_a_process_had_that_ends_comes_in_a_moment),
        ASKING(what_a_process_had_that_ended_is_not_waited_for_for_ever),
        ASKING(idle_memory_is_given_up_largest_first),
        ASKING(where_a_free_would_wait_nothing_is_given_up_but_at_a_free),
        ASKING(at_a_free_no_other_context_is_waited_for),
        ASKING(during_a_capture_nothing_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
