/* Programs that use some sizes in turns, round after round: what they miss because it was given up
 * for a bound, they come to miss no more. */
#include "pool_test.h"

enum { ROUNDS = 300, SETTLED = 200 };

static void use_in_turns(void) {
    CUdeviceptr blocks[3];
    release(alloc_at(60 * MIB, 1));
    for (int i = 0; i < 3; i++)
        blocks[i] = alloc_at(20 * MIB, 2);
    for (int i = 0; i < 3; i++)
        release(blocks[i]);
}

/* What they waste is not taken from what may lie idle, once that has cost some calls. */
static void small_blocks_in_large_ones_leave_room_for_what_is_used_in_turns(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        use_in_turns();
        alloc_at(70000, 3);
    }
    for (int i = 0; i < 40; i++)
        use_in_turns();
    int allocs = fake.allocs;
    for (int i = 0; i < 20; i++)
        use_in_turns();
    assert_int_equal(fake.allocs, allocs);
}

static void miss_what_was_given_up(void) {
    static const int sizes[] = {13, 45, 2, 8, 5, 28, 153, 56};
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < 8; i++)
            release(alloc_at((size_t)sizes[i] * MIB, 1));
    pool_release(pool, 0, SIZE_MAX);
}

/* They served one another; what was then too much went back, was missed, and so on for ever. */
static void
blocks_of_any_size_serve_no_longer_once_the_bound_on_idle_memory_costs_calls(void **state) {
    (void)state;
    miss_what_was_given_up();
    CUdeviceptr block = alloc_at(24 * MIB, 1);
    release(block);
    assert_int_not_equal(alloc_at(KIB, 1), block);
}

/* Three small blocks that stayed held large ones, and what these wasted left no block of about a
 * request's size any waste. */
static void small_blocks_that_stay_do_not_make_later_rounds_call_the_driver(void **state) {
    (void)state;
    static const int sizes[] = {2, 32, 22, 40, 19};
    int allocs = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == SETTLED)
            allocs = fake.allocs;
        for (int i = 0; i < 5; i++) {
            release(alloc_at((size_t)sizes[i] * MIB, 1));
            if (i == 2 && round < 3)
                alloc_at(30000, 2);
        }
    }
    assert_int_equal(fake.allocs, allocs);
}

/* 163 MiB in turns, where 1.2 x 75 MiB + 64 MiB may be held: 154. */
static void take_turns_that_exceed_the_bound(void) {
    release(alloc_at(75 * MIB, 1));
    release(alloc_at(33 * MIB, 1));
    release(alloc_at(42 * MIB, 1));
    release(alloc_at(13 * MIB, 2));
}

static void take_many_turns(void) {
    for (int round = 0; round < SETTLED; round++)
        take_turns_that_exceed_the_bound();
}

static void the_bound_on_idle_memory_yields_where_what_it_gave_up_is_missed_often(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, GIB);
    take_many_turns();
    int allocs = fake.allocs;
    take_many_turns();
    assert_int_equal(fake.allocs, allocs);
    assert_true(stats_get(STATS_peak_held_bytes) <= 170 * MIB);
}

/* 255 MiB in turns, none of which can serve for another: by 4 steps of 19.75 MiB 233 are held. */
static void hold_255_mib_in_turns(uint64_t device) {
    static const int sizes[] = {75, 70, 60, 50};
    struct pool_config config = pool_defaults;
    config.reuse_ratio = 1;
    stop(NULL);
    start_with(&config, device);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < 4; i++)
            release(alloc_at((size_t)sizes[i] * MIB, 1));
}

static void it_yields_by_four_steps_at_most(void **state) {
    (void)state;
    hold_255_mib_in_turns(80 * GIB);
    assert_true(stats_get(STATS_peak_held_bytes) > 180 * MIB);
    assert_true(stats_get(STATS_peak_held_bytes) <= 233 * MIB);
}

/* Of 1 GiB a step is 5.12 MiB. */
static void a_step_is_little_of_the_device(void **state) {
    (void)state;
    hold_255_mib_in_turns(GIB);
    assert_true(stats_get(STATS_peak_held_bytes) <= 175 * MIB);
}

/* Of 990 MiB in turns 1.2 x 600 + 64 may be held, with steps 47 MiB more. */
static void it_does_not_yield_where_a_quarter_of_the_device_was_used(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    config.reuse_ratio = 1;
    stop(NULL);
    start_with(&config, 2350 * (uint64_t)MIB);
    for (int round = 0; round < ROUNDS; round++) {
        release(alloc_at(600 * MIB, 1));
        for (size_t mib = 10; mib < 30; mib++)
            release(alloc_at(mib * MIB, 2));
    }
    assert_true(stats_get(STATS_peak_held_bytes) > 750 * MIB);
    assert_true(stats_get(STATS_peak_held_bytes) <= 784 * MIB);
}

static void it_does_not_yield_once_an_allocation_has_failed(void **state) {
    (void)state;
    CUdeviceptr none;
    stop(NULL);
    start_with(&pool_defaults, GIB);
    CUdeviceptr some = alloc_at(4 * MIB, 3);
    assert_int_equal(try_alloc(&none, GIB - 2 * MIB, 3), CUDA_ERROR_OUT_OF_MEMORY);
    release(some);
    take_many_turns();
    assert_true(stats_get(STATS_peak_held_bytes) <= 155 * MIB);
}

/* At 153 MiB 55 may go to waste, four fifths of that for one request. */
static void the_bound_on_waste_is_then_twice_as_large(void **state) {
    (void)state;
    CUdeviceptr block = alloc_at(150 * MIB, 1);
    release(block);
    assert_int_not_equal(alloc_at(90 * MIB, 1), block);
    stop(NULL);
    start(NULL);
    miss_what_was_given_up();
    block = alloc_at(150 * MIB, 1);
    release(block);
    assert_int_equal(alloc_at(90 * MIB, 1), block);
}

static void it_yields_no_longer_once_an_allocation_has_failed(void **state) {
    (void)state;
    CUdeviceptr none;
    miss_what_was_given_up();
    CUdeviceptr some = alloc_at(4 * MIB, 1);
    assert_int_equal(try_alloc(&none, 80 * GIB - 2 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    release(some);
    CUdeviceptr block = alloc_at(150 * MIB, 1);
    release(block);
    assert_int_not_equal(alloc_at(90 * MIB, 1), block);
}

/* Blocks of 2.1 MiB take 4: 400 MiB, where 1.2 x 210 MiB + 64 MiB are 316. */
static void what_blocks_once_took_may_be_held(void **state) {
    (void)state;
    enum { BLOCKS = 100, BYTES = 2202010 };
    CUdeviceptr blocks[BLOCKS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = alloc_at(BYTES, 1);
        for (int i = 0; i < BLOCKS; i++)
            release(blocks[i]);
    }
    assert_int_equal(fake.allocs, BLOCKS);
}

static void a_bound_that_was_set_does_not_yield(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = pool_defaults;
    config.max_waste = (struct limit){.kind = LIMIT_BYTES, .bytes = 15 * MIB};
    config.max_idle = (struct limit){.kind = LIMIT_BYTES, .bytes = 90 * MIB};
    start_with(&config, GIB);
    take_many_turns();
    assert_true(stats_get(STATS_held_bytes) <= 90 * MIB);
    pool_release(pool, 0, SIZE_MAX);
    CUdeviceptr one = alloc_at(60 * MIB, 1), other = alloc_at(60 * MIB, 1);
    release(one);
    release(other);
    assert_true(stats_get(STATS_held_bytes) <= 90 * MIB);
    CUdeviceptr block = alloc_at(60 * MIB, 3);
    release(block);
    assert_int_not_equal(alloc_at(40 * MIB, 3), block);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(small_blocks_in_large_ones_leave_room_for_what_is_used_in_turns),
        TEST(blocks_of_any_size_serve_no_longer_once_the_bound_on_idle_memory_costs_calls),
        TEST(small_blocks_that_stay_do_not_make_later_rounds_call_the_driver),
        TEST(the_bound_on_idle_memory_yields_where_what_it_gave_up_is_missed_often),
        TEST(it_yields_by_four_steps_at_most),
        TEST(a_step_is_little_of_the_device),
        TEST(what_blocks_once_took_may_be_held),
        TEST(it_does_not_yield_where_a_quarter_of_the_device_was_used),
        TEST(it_yields_no_longer_once_an_allocation_has_failed),
        TEST(it_does_not_yield_once_an_allocation_has_failed),
        TEST(the_bound_on_waste_is_then_twice_as_large),
        TEST(a_bound_that_was_set_does_not_yield),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
