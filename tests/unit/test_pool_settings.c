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
    stop(NULL);
    start_where_much_is_used(&pool_defaults);
    assert_false(is_reused(40 * MIB, 16 * MIB, 1));
    set(&(struct pool_config){.reuse_ratio = 4}, POOL_SET_reuse_ratio);
    assert_true(is_reused(40 * MIB, 16 * MIB, 1));
    set(&(struct pool_config){.reuse_ratio = 1}, POOL_SET_reuse_ratio);
    assert_false(is_reused(40 * MIB, 32 * MIB, 1));
    assert_true(is_reused(40 * MIB, 40 * MIB, 1));
}

static void stealing_is_allowed_and_forbidden(void **state) {
    (void)state;
    assert_true(is_reused(4 * MIB, 4 * MIB, 2));
    set(&(struct pool_config){.steal = false}, POOL_SET_steal);
    assert_false(is_reused(4 * MIB, 4 * MIB, 2));
    set(&(struct pool_config){.steal = true}, POOL_SET_steal);
    assert_true(is_reused(4 * MIB, 4 * MIB, 2));
}

static void the_bound_on_waste_decides_how_much_larger_a_block_may_be(void **state) {
    (void)state;
    assert_true(is_reused(12 * MIB, 8 * MIB, 1));
    struct pool_config config = {.max_waste = {.kind = LIMIT_BYTES, .bytes = 3 * MIB}};
    set(&config, POOL_SET_max_waste);
    assert_false(is_reused(12 * MIB, 8 * MIB, 1));
    config.max_waste = (struct limit){.kind = LIMIT_PERCENT, .percent = 1};
    set(&config, POOL_SET_max_waste);
    assert_true(is_reused(12 * MIB, 8 * MIB, 1));
}

static void what_a_site_keeps_beyond_its_number_goes_at_its_next_free(void **state) {
    (void)state;
    CUdeviceptr blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = alloc(2 * MIB);
    for (int i = 0; i < 3; i++)
        release(blocks[i]);
    set(&(struct pool_config){.site_keep = 2}, POOL_SET_site_keep);
    assert_int_equal(stats_get(STATS_idle_blocks), 3);
    release(blocks[3]);
    assert_int_equal(stats_get(STATS_idle_blocks), 2);
    assert_int_not_equal(fake_size(blocks[3]), 0);
    set(&(struct pool_config){.site_keep = 0}, POOL_SET_site_keep);
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
    set(&config, POOL_SET_max_idle);
    assert_int_equal(stats_get(STATS_idle_bytes), 50 * MIB);
    release(small);
    assert_int_equal(fake.used, 20 * MIB + KIB);
    config.max_idle = (struct limit){.kind = LIMIT_BYTES, .bytes = 0};
    set(&config, POOL_SET_max_idle);
    alloc_at(60 * MIB, 4); /* a miss: the growth of live memory */
    assert_int_equal(fake.used, 60 * MIB);
    config.max_idle = (struct limit){.kind = LIMIT_AUTO};
    set(&config, POOL_SET_max_idle);
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
    release(alloc_at(KIB, 9)); /* serves `pass`: else the large block would be needed */
    release(alloc(20 * MIB));
    pass(1000);
    pass(1000);
    assert_true(stats_get(STATS_idle_bytes) >= 20u * MIB);
    set(&(struct pool_config){.idle_decay = 10}, POOL_SET_idle_decay);
    pass(11);
    pass(11);
    assert_true(stats_get(STATS_idle_bytes) < 20u * MIB);
    release(alloc(20 * MIB));
    set(&(struct pool_config){.idle_decay = 0}, POOL_SET_idle_decay);
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
    set(&(struct pool_config){.throttle_ratio = 0.3}, POOL_SET_throttle_ratio);
    alloc_at(10 * MIB, 4);
    assert_int_equal(fake_size(idle), 0);
    assert_int_equal(stats_get(STATS_headroom_released_blocks), 1);
}

static void reused_memory_is_cleared_as_soon_as_and_as_long_as_that_is_on(void **state) {
    (void)state;
    release(alloc(1000));
    release(alloc(1000));
    assert_int_equal(fake.cleared, 0);
    set(&(struct pool_config){.zero = true}, POOL_SET_zero);
    CUdeviceptr block = alloc(1000);
    assert_int_equal(fake.cleared, block);
    assert_int_equal(fake.cleared_bytes, 1000);
    release(block);
    fake.cleared = 0;
    set(&(struct pool_config){.zero = false}, POOL_SET_zero);
    release(alloc(1000));
    assert_int_equal(fake.cleared, 0);
}

/* A value of the type that is other than `now`. */
#define OTHER_BOOL(now)  !(now)
#define OTHER_UINT(now)  (now) + 7
#define OTHER_RATIO(now) (now) + 0.5
#define OTHER_WORD(now)  (now) + 1
#define OTHER_LIMIT(now)                                                                           \
    { LIMIT_BYTES, (now).bytes + 7, 0 }
#define OTHER_PATH(now) "elsewhere"

/* Of any type: both are copies of what the other one was copied from, bit by bit. */
static bool differ(const void *one, const void *other, size_t size) {
    return memcmp(one, other, size) != 0;
}

static void only_what_is_named_changes(void **state) {
    (void)state;
    struct pool_config before, after;
    pool_get_config(pool, &before);
    const struct pool_config other = {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_POOL_##when(.field = OTHER_##type(before.field), )
#include "options/options.def"
#undef OPTION
    };
    set(&other, 0);
    pool_get_config(pool, &after);
    assert_memory_equal(&before, &after, sizeof after);
    for (unsigned setting = 1; setting & POOL_SET_ALL; setting <<= 1) {
        set(&other, setting);
        pool_get_config(pool, &after);
        unsigned changed = 0;
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_LIVE_##when(if (differ(&after.field, &before.field, sizeof after.field)) changed |=  \
                          POOL_SET_##field;)
#include "options/options.def"
#undef OPTION
        assert_int_equal(changed, setting);
        set(&before, setting);
        pool_get_config(pool, &after);
        assert_memory_equal(&before, &after, sizeof after);
    }
    set(&other, POOL_SET_ALL);
    pool_get_config(pool, &after);
    /* The others cannot change. */
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_POOL_##when(                                                                         \
        assert_int_equal(differ(&after.field, &before.field, sizeof after.field),                  \
                         0 OPTION_IF_LIVE_##when(+1));)
#include "options/options.def"
#undef OPTION
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
