/* The usage of one device or all, at one moment; and calls that name a device. */
#include "pool_test.h"

static struct pool_usage figures_of(CUdevice device) {
    struct pool_usage figures;
    pool_usage(pool, device, &figures);
    assert_int_equal(figures.in_use + figures.idle + figures.waste, figures.held);
    return figures;
}

static void use_device(int device) {
    fake.current = fake_context(device, 1);
}

static void a_device_that_was_not_used_has_zeros(void **state) {
    (void)state;
    const struct pool_usage zeros = {0};
    struct pool_usage none = figures_of(POOL_ALL_DEVICES);
    assert_memory_equal(&none, &zeros, sizeof none);
    alloc(1000);
    none = figures_of(1);
    assert_memory_equal(&none, &zeros, sizeof none);
}

static void in_use_idle_and_waste_add_up_to_what_is_held(void **state) {
    (void)state;
    CUdeviceptr idle = alloc_at(6 * MIB, 1);
    alloc_at(3 * MIB, 2); /* a block of 4 MiB */
    release(idle);
    struct pool_usage figures = figures_of(0);
    assert_int_equal(figures.in_use, 3 * MIB);
    assert_int_equal(figures.waste, MIB);
    assert_int_equal(figures.idle, 6 * MIB);
    assert_int_equal(figures.held, 10 * MIB);
    assert_int_equal(figures.live_blocks, 1);
    assert_int_equal(figures.idle_blocks, 1);
    assert_int_equal(figures.peak_live, 10 * MIB);
    assert_int_equal(figures.peak_held, 10 * MIB);
    assert_int_equal(figures.allocations, 2);
    assert_int_equal(figures.hits, 0);
    assert_int_equal(figures.frees, 1);
}

static void peaks_stay_and_calls_are_counted(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++)
        release(alloc(8 * MIB));
    pool_release(pool, 0, SIZE_MAX);
    struct pool_usage figures = figures_of(0);
    assert_int_equal(figures.held, 0);
    assert_int_equal(figures.idle_blocks, 0);
    assert_int_equal(figures.peak_live, 8 * MIB);
    assert_int_equal(figures.peak_held, 8 * MIB);
    assert_int_equal(figures.allocations, 3);
    assert_int_equal(figures.hits, 2);
    assert_int_equal(figures.frees, 3);
}

static void the_page_has_the_highest_of_what_was_live_and_held(void **state) {
    (void)state;
    enum { BLOCKS = 8 };
    CUdeviceptr blocks[BLOCKS] = {0};
    uint64_t most_live = 0, most_held = 0;
    for (unsigned i = 0; i < 500; i++) {
        CUdeviceptr *block = &blocks[i * 5 % BLOCKS];
        if (*block) {
            release(*block);
            *block = 0;
        } else {
            *block = alloc_at((size_t)(1 + i * 7 % 30) * MIB, i % 3);
        }
        if (i % 50 == 49)
            pool_release(pool, 0, SIZE_MAX);
        struct pool_usage now = figures_of(0);
        most_live = now.in_use + now.waste > most_live ? now.in_use + now.waste : most_live;
        most_held = now.held > most_held ? now.held : most_held;
        const struct stats_device *page = TAILQ_FIRST(&pool->devices)->stats;
        assert_int_equal(stats_read(&page->peak_live), most_live);
        assert_int_equal(stats_read(&page->peak_held), most_held);
    }
    struct pool_usage last = figures_of(0);
    assert_true(last.held < most_held && last.in_use + last.waste < most_live);
}

static void devices_are_told_apart_and_together(void **state) {
    (void)state;
    release(alloc(4 * MIB));
    use_device(1);
    alloc(10 * MIB);
    assert_int_equal(figures_of(0).idle, 4 * MIB);
    assert_int_equal(figures_of(0).in_use, 0);
    assert_int_equal(figures_of(1).in_use, 10 * MIB);
    assert_int_equal(figures_of(1).idle, 0);
    struct pool_usage all = figures_of(POOL_ALL_DEVICES);
    assert_int_equal(all.held, 14 * MIB);
    assert_int_equal(all.peak_held, 14 * MIB);
    assert_int_equal(all.allocations, 2);
    assert_int_equal(all.live_blocks, 1);
    assert_int_equal(all.idle_blocks, 1);
    assert_int_equal(all.held, stats_get(STATS_held_bytes));
    assert_int_equal(all.peak_live, stats_get(STATS_peak_live_bytes));
}

static void running_out_of_memory_is_counted_for_the_device(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 20 * MIB);
    release(alloc_at(12 * MIB, 1));
    alloc_at(16 * MIB, 2);
    CUdeviceptr pointer;
    assert_int_equal(try_alloc(&pointer, 16 * MIB, 2), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(figures_of(0).oom_events, 2);
    assert_int_equal(figures_of(0).oom_rescued, 1);
}

static void the_current_context_is_kept_if_it_is_of_the_device(void **state) {
    (void)state;
    bool pushed;
    CUcontext current = fake.current;
    assert_true(pool_push_device(pool, 0, &pushed));
    assert_false(pushed);
    assert_ptr_equal(fake.current, current);
    pool_pop_device(pool, pushed);
}

static void another_device_is_visited_in_a_context_that_was_used(void **state) {
    (void)state;
    bool pushed;
    use_device(1);
    alloc(1000);
    CUcontext other = fake.current;
    use_device(0);
    CUcontext mine = fake.current;
    assert_true(pool_push_device(pool, 1, &pushed));
    assert_ptr_equal(fake.current, other);
    pool_pop_device(pool, pushed);
    assert_ptr_equal(fake.current, mine);
    fake.current = NULL;
    assert_true(pool_push_device(pool, 1, &pushed));
    assert_ptr_equal(fake.current, other);
    pool_pop_device(pool, pushed);
    assert_null(fake.current);
}

static void a_device_without_a_known_primary_context_is_not_visited(void **state) {
    (void)state;
    bool pushed;
    assert_false(pool_push_device(pool, 2, &pushed));
    fake.current = fake_context(2, 5);
    pool_context_created(pool, fake.current);
    alloc(1000);
    use_device(0);
    CUcontext mine = fake.current;
    assert_false(pool_push_device(pool, 2, &pushed)); /* only a made one, the program's own */
    assert_ptr_equal(fake.current, mine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_device_that_was_not_used_has_zeros),
        TEST(in_use_idle_and_waste_add_up_to_what_is_held),
        TEST(peaks_stay_and_calls_are_counted),
        TEST(the_page_has_the_highest_of_what_was_live_and_held),
        TEST(devices_are_told_apart_and_together),
        TEST(running_out_of_memory_is_counted_for_the_device),
        TEST(the_current_context_is_kept_if_it_is_of_the_device),
        TEST(another_device_is_visited_in_a_context_that_was_used),
        TEST(a_device_without_a_known_primary_context_is_not_visited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
