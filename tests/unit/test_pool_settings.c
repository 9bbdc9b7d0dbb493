/* Settings that change while the pool runs: each is in effect from the next allocation or free. */
#include "pool_test.h"

static void set(const struct pool_config *config, unsigned settings) {
    pool_set_config(pool, config, settings);
    assert_true(pool_is_valid(pool));
}

static bool is_reused(size_t idle_bytes, size_t bytes, uintptr_t number) {
    CUdeviceptr idle = alloc_at(idle_bytes, 1);
    release(idle);
    CUdeviceptr block = alloc_at(bytes, number);
    release(block);
    pool_release(pool, 0, SIZE_MAX);
    return block == idle;
}

static void the_reuse_ratio_decides_which_block_serves(void **state) {
    (void)state;
    assert_false(is_reused(40 * MIB, 16 * MIB, 1));
    set(&(struct pool_config){.reuse_ratio = 4}, POOL_SET_REUSE_RATIO);
    assert_true(is_reused(40 * MIB, 16 * MIB, 1));
    set(&(struct pool_config){.reuse_ratio = 1}, POOL_SET_REUSE_RATIO);
    assert_false(is_reused(40 * MIB, 32 * MIB, 1));
    assert_true(is_reused(40 * MIB, 40 * MIB, 1));
}

static void stealing_is_allowed_and_forbidden(void **state) {
    (void)state;
    assert_true(is_reused(4 * MIB, 4 * MIB, 2));
    set(&(struct pool_config){.steal = false}, POOL_SET_STEAL);
    assert_false(is_reused(4 * MIB, 4 * MIB, 2));
    set(&(struct pool_config){.steal = true}, POOL_SET_STEAL);
    assert_true(is_reused(4 * MIB, 4 * MIB, 2));
}

static void the_bound_on_waste_decides_how_much_larger_a_block_may_be(void **state) {
    (void)state;
    assert_true(is_reused(12 * MIB, 8 * MIB, 1));
    struct pool_config config = {.max_waste = {.kind = LIMIT_BYTES, .bytes = 3 * MIB}};
    set(&config, POOL_SET_MAX_WASTE);
    assert_false(is_reused(12 * MIB, 8 * MIB, 1));
    config.max_waste = (struct limit){.kind = LIMIT_PERCENT, .percent = 1};
    set(&config, POOL_SET_MAX_WASTE);
    assert_true(is_reused(12 * MIB, 8 * MIB, 1));
}

static void what_a_site_keeps_beyond_its_number_goes_at_its_next_free(void **state) {
    (void)state;
    CUdeviceptr blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = alloc(2 * MIB);
    for (int i = 0; i < 3; i++)
        release(blocks[i]);
    set(&(struct pool_config){.site_keep = 2}, POOL_SET_SITE_KEEP);
    assert_int_equal(stats_get(STATS_idle_blocks), 3);
    release(blocks[3]);
    assert_int_equal(stats_get(STATS_idle_blocks), 2);
    assert_int_not_equal(fake_size(blocks[3]), 0);
    set(&(struct pool_config){.site_keep = 0}, POOL_SET_SITE_KEEP);
    for (int i = 0; i < 4; i++)
        blocks[i] = alloc(2 * MIB);
    for (int i = 0; i < 4; i++)
        release(blocks[i]);
    assert_int_equal(stats_get(STATS_idle_blocks), 4);
}

static void idle_memory_beyond_its_new_bound_goes_at_the_next_free(void **state) {
    (void)state;
    CUdeviceptr small = alloc_at(KIB, 2);
    release(alloc(20 * MIB));
    release(alloc_at(30 * MIB, 3));
    struct pool_config config = {.max_idle = {.kind = LIMIT_BYTES, .bytes = 25 * MIB}};
    set(&config, POOL_SET_MAX_IDLE);
    assert_int_equal(stats_get(STATS_idle_bytes), 50 * MIB);
    release(small);
    assert_int_equal(fake.used, 20 * MIB + KIB);
    config.max_idle = (struct limit){.kind = LIMIT_BYTES, .bytes = 0};
    set(&config, POOL_SET_MAX_IDLE);
    alloc_at(60 * MIB, 4); /* a miss: the growth of live memory */
    assert_int_equal(fake.used, 60 * MIB);
    config.max_idle = (struct limit){.kind = LIMIT_AUTO};
    set(&config, POOL_SET_MAX_IDLE);
    release(alloc(20 * MIB));
    assert_int_equal(stats_get(STATS_idle_bytes), 20 * MIB);
}

static uint64_t seconds;

static uint64_t fake_clock(void) {
    return seconds * 1000000000u;
}

/* Calls enough for the pool to look at the clock. */
static void pass(uint64_t length) {
    seconds += length;
    for (int i = 0; i < 32; i++)
        release(alloc_at(KIB, 9));
}

static void idle_memory_decays_as_soon_as_and_as_long_as_that_is_on(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.clock = fake_clock;
    seconds = 100;
    start_with(&config, 80 * GIB);
    alloc_at(200 * MIB, 3);
    release(alloc(20 * MIB));
    pass(1000);
    pass(1000);
    assert_true(stats_get(STATS_idle_bytes) >= 20u * MIB);
    set(&(struct pool_config){.idle_decay = 10}, POOL_SET_IDLE_DECAY);
    pass(11);
    pass(11);
    assert_true(stats_get(STATS_idle_bytes) < 20u * MIB);
    release(alloc(20 * MIB));
    set(&(struct pool_config){.idle_decay = 0}, POOL_SET_IDLE_DECAY);
    pass(11);
    pass(11);
    assert_true(stats_get(STATS_idle_bytes) >= 20u * MIB);
}

/* The device is asked for its free memory now and then only: what it answered for another ratio no
 * longer counts. */
static void the_share_that_stays_free_is_looked_at_again_once_it_changes(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.max_idle = (struct limit){.kind = LIMIT_PERCENT, .percent = 100};
    start_with(&config, GIB);
    CUdeviceptr idle = alloc(400 * MIB);
    release(idle);
    alloc_at(10 * MIB, 2); /* from now on 300 MiB may be allocated before it is asked */
    alloc_at(10 * MIB, 3);
    assert_int_not_equal(fake_size(idle), 0);
    set(&(struct pool_config){.throttle_ratio = 0.3}, POOL_SET_THROTTLE_RATIO);
    alloc_at(10 * MIB, 4);
    assert_int_equal(fake_size(idle), 0);
    assert_int_equal(stats_get(STATS_headroom_released_blocks), 1);
}

static void reused_memory_is_cleared_as_soon_as_and_as_long_as_that_is_on(void **state) {
    (void)state;
    release(alloc(1000));
    release(alloc(1000));
    assert_int_equal(fake.cleared, 0);
    set(&(struct pool_config){.zero = true}, POOL_SET_ZERO);
    CUdeviceptr block = alloc(1000);
    assert_int_equal(fake.cleared, block);
    assert_int_equal(fake.cleared_bytes, 1000);
    release(block);
    fake.cleared = 0;
    set(&(struct pool_config){.zero = false}, POOL_SET_ZERO);
    release(alloc(1000));
    assert_int_equal(fake.cleared, 0);
}

static void only_what_is_named_changes(void **state) {
    (void)state;
    const struct pool_config other = {
        .free_mode = POOL_FREE_DEFER,
        .zero = true,
        .reuse_ratio = 7,
        .site_keep = 7,
        .max_waste = {.kind = LIMIT_BYTES, .bytes = 7},
        .max_idle = {.kind = LIMIT_BYTES, .bytes = 7},
        .idle_decay = 7,
        .throttle_ratio = 0.7,
    };
    struct pool_config before, after;
    pool_get_config(pool, &before);
    set(&other, 0);
    pool_get_config(pool, &after);
    assert_memory_equal(&before, &after, sizeof after);
    for (unsigned setting = 1; setting & POOL_SET_ALL; setting <<= 1) {
        set(&other, setting);
        pool_get_config(pool, &after);
        unsigned changed = 0;
        changed |= after.reuse_ratio == 7 ? POOL_SET_REUSE_RATIO : 0u;
        changed |= after.site_keep == 7 ? POOL_SET_SITE_KEEP : 0u;
        changed |= !after.steal ? POOL_SET_STEAL : 0u;
        changed |= after.max_waste.kind == LIMIT_BYTES ? POOL_SET_MAX_WASTE : 0u;
        changed |= after.max_idle.kind == LIMIT_BYTES ? POOL_SET_MAX_IDLE : 0u;
        changed |= after.idle_decay == 7 ? POOL_SET_IDLE_DECAY : 0u;
        changed |= after.throttle_ratio == 0.7 ? POOL_SET_THROTTLE_RATIO : 0u;
        changed |= after.zero ? POOL_SET_ZERO : 0u;
        assert_int_equal(changed, setting);
        set(&before, setting);
        pool_get_config(pool, &after);
        assert_memory_equal(&before, &after, sizeof after);
    }
    set(&other, POOL_SET_ALL);
    pool_get_config(pool, &after);
    assert_int_equal(after.free_mode, before.free_mode); /* that cannot change */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_reuse_ratio_decides_which_block_serves),
        TEST(stealing_is_allowed_and_forbidden),
        TEST(the_bound_on_waste_decides_how_much_larger_a_block_may_be),
        TEST(what_a_site_keeps_beyond_its_number_goes_at_its_next_free),
        TEST(idle_memory_beyond_its_new_bound_goes_at_the_next_free),
        TEST(idle_memory_decays_as_soon_as_and_as_long_as_that_is_on),
        TEST(the_share_that_stays_free_is_looked_at_again_once_it_changes),
        TEST(reused_memory_is_cleared_as_soon_as_and_as_long_as_that_is_on),
        TEST(only_what_is_named_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
