/* Which block serves which request. */
#include "pool_test.h"

static const struct pool_config wasting_32_mib = {
    .reuse_ratio = 2.0, .steal = true, .max_waste = {.kind = LIMIT_BYTES, .bytes = 32 * MIB}};

static void freed_memory_serves_its_site_again(void **state) {
    (void)state;
    CUdeviceptr first = alloc(1000);
    release(first);
    assert_int_equal(alloc(1000), first);
    assert_int_equal(fake.allocs, 1);
    assert_int_equal(stats_get(STATS_malloc_hits), 1);
}

static void a_block_of_exactly_the_ratio_is_reused_and_a_larger_one_is_not(void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&pool_defaults);
    CUdeviceptr big = alloc(64 * KIB);
    release(big);
    CUdeviceptr other = alloc(32 * KIB - 1024);
    assert_int_not_equal(other, big);
    release(other);
    assert_int_equal(alloc(32 * KIB), big);
}

/* On most of a device nobody has any need of the memory that a block wastes. */
static void
while_little_of_the_device_is_used_a_block_of_any_size_serves_within_the_bound(void **state) {
    (void)state;
    /* four fifths of seven tenths of 40 MiB and a little */
    CUdeviceptr block = alloc_at(22 * MIB, 1);
    release(block);
    assert_int_equal(alloc_at(KIB, 2), block);
    block = alloc_at(64 * MIB, 1); /* of the rest it would take too much */
    release(block);
    assert_int_not_equal(alloc_at(KIB, 1), block);
}

static void small_requests_that_stay_leave_waste_for_blocks_of_about_a_requests_size(void **state) {
    (void)state;
    CUdeviceptr block = alloc_at(20 * MIB, 1), other = alloc_at(16 * MIB, 1);
    release(block);
    assert_int_equal(alloc_at(KIB, 2), block);
    release(other);
    assert_int_not_equal(alloc_at(KIB, 2), other);
    assert_int_equal(alloc_at(10 * MIB, 2), other);
}

/* Of 80 GiB a twentieth is 4. */
static void once_a_twentieth_of_the_device_was_used_the_ratio_decides_for_good(void **state) {
    (void)state;
    CUdeviceptr first = alloc_at(4 * GIB - 4 * MIB, 2), second = alloc_at(4 * MIB, 3);
    release(first);
    release(second);
    assert_int_not_equal(alloc(KIB), second);
}

static void once_most_allocations_hit_the_ratio_decides(void **state) {
    (void)state;
    CUdeviceptr block = alloc(4 * MIB);
    release(block);
    for (int i = 0; i < 1024; i++)
        release(alloc(4 * MIB));
    assert_int_equal(alloc(KIB), block);
    release(block);
    for (int i = 0; i < 32; i++)
        release(alloc(4 * MIB));
    assert_int_not_equal(alloc(KIB), block);
}

static void after_a_failure_the_ratio_decides_on_an_empty_device_as_well(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 8 * GIB);
    CUdeviceptr block = alloc(12 * MIB), none;
    release(block);
    assert_int_equal(alloc(KIB), block);
    assert_int_equal(try_alloc(&none, 8 * GIB - 4 * MIB, 2), CUDA_ERROR_OUT_OF_MEMORY);
    release(block);
    assert_int_not_equal(alloc(KIB), block);
}

static void give_something_back(void) {
    uint64_t held = stats_get(STATS_held_bytes);
    release(alloc_at(MIB, 9));
    pool_release(pool, 0, SIZE_MAX);
    assert_int_equal(stats_get(STATS_held_bytes), held);
}

/* A sixth of four fifths of what the bound on waste leaves. */
static void once_memory_was_given_back_a_block_that_wastes_little_serves(void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&wasting_32_mib);
    CUdeviceptr idle = alloc_at(MIB, 1);
    release(idle);
    CUdeviceptr other = alloc_at(10 * KIB, 2);
    assert_int_not_equal(other, idle);
    release(other);
    pool_release(pool, 0, SIZE_MAX);
    CUdeviceptr block = alloc_at(MIB + 512 * KIB, 1), large = alloc_at(6 * MIB, 1);
    release(block);
    release(large);
    assert_int_equal(alloc_at(10 * KIB, 2), block);
    assert_int_not_equal(alloc_at(10 * KIB, 2), large);
}

static void a_little_waste_is_measured_by_the_bound_and_none_is_at_a_ratio_of_one(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        stop(NULL);
        struct pool_config config = pool_defaults;
        if (i)
            config.reuse_ratio = 1;
        else
            config.max_waste = (struct limit){.kind = LIMIT_BYTES, .bytes = 320 * KIB};
        start_where_much_is_used(&config);
        give_something_back();
        CUdeviceptr block = alloc(64 * KIB);
        release(block);
        assert_int_not_equal(alloc(21 * KIB), block);
        if (!i)
            assert_int_equal(alloc(22 * KIB), block);
    }
}

/* With the sizes that are asked for, all at once; returns the size of the last block. */
static size_t size_after(const size_t *sizes, size_t count) {
    CUdeviceptr pointer = 0;
    for (size_t i = 0; i < count; i++)
        pointer = alloc(sizes[i] * KIB);
    return fake_size(pointer);
}

static void a_site_whose_sizes_only_grow_is_given_more_than_it_asks_for(void **state) {
    static const size_t small[] = {70, 100, 130};
    (void)state;
    assert_int_equal(size_after(small, 2), 100 * KIB);
    stop(NULL);
    start_with(&pool_defaults, 80 * GIB);
    assert_int_equal(size_after(small, 3), 4 * 130 * KIB);
    stop(NULL);
    start_where_much_is_used(&wasting_32_mib);
    static const size_t large[] = {8 * KIB, 10 * KIB, 13 * KIB, 17 * KIB, 22 * KIB};
    assert_int_equal(size_after(large, 4), 18 * MIB);
    stop(NULL);
    start_where_much_is_used(&wasting_32_mib);
    assert_in_range(size_after(large, 5), 24 * MIB, 44 * MIB); /* at most as large as could serve */
}

static void a_site_is_given_what_it_asks_for_if_a_size_was_no_larger_than_before(void **state) {
    static const size_t sizes[] = {70, 100, 90, 130, 170};
    (void)state;
    assert_int_equal(size_after(sizes, 5), 170 * KIB);
}

/* Sizes without an order: what has been freed serves most requests, and a miss is for the largest
 * size so far. */
static void a_site_is_given_what_it_asks_for_if_many_requests_hit_between_its_misses(void **state) {
    static const size_t sizes[] = {100, 130, 170, 220, 280, 360, 470};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        CUdeviceptr block = alloc(sizes[i] * KIB);
        assert_int_equal(fake_size(block), sizes[i] * KIB);
        release(block);
        for (int hit = 0; hit < 20; hit++)
            release(alloc((sizes[i] - hit % 2) * KIB));
    }
}

static void where_the_driver_has_not_so_much_a_growing_site_gets_what_it_asks_for(void **state) {
    static const size_t sizes[] = {1 * KIB, 2 * KIB, 4 * KIB, 6 * KIB, 9 * KIB};
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 22 * MIB);
    fake.total = 80 * GIB; /* others have the rest */
    assert_int_equal(size_after(sizes, 5), 9 * MIB);
}

static void the_ratio_counts_requests_as_made_not_as_rounded(void **state) {
    (void)state;
    CUdeviceptr block = alloc(2 * MIB + 1); /* held as 4 MiB */
    assert_int_equal(fake_size(block), 4 * MIB);
    release(block);
    assert_int_equal(alloc(MIB + 512 * KIB), block);
}

static void the_smallest_block_that_fits_is_taken(void **state) {
    (void)state;
    CUdeviceptr a = alloc(100 * KIB), b = alloc(80 * KIB), c = alloc(90 * KIB);
    release(a);
    release(b);
    release(c);
    assert_int_equal(alloc(85 * KIB), c);
    assert_int_equal(alloc(75 * KIB), b);
    assert_int_equal(alloc(75 * KIB), a);
}

static void a_block_too_small_is_never_handed_out(void **state) {
    (void)state;
    release(alloc(512));
    CUdeviceptr larger = alloc(513);
    assert_true(fake_size(larger) >= 513);
}

static void the_best_fit_serves_and_among_equals_the_sites_own(void **state) {
    (void)state;
    CUdeviceptr own = alloc_at(60 * KIB, 1), other = alloc_at(50 * KIB, 2);
    CUdeviceptr equal = alloc_at(60 * KIB, 3);
    release(own);
    release(other);
    release(equal);
    assert_int_equal(alloc_at(50 * KIB, 1), other);
    assert_int_equal(alloc_at(60 * KIB, 3), equal);
    assert_int_equal(alloc_at(60 * KIB, 1), own);
    assert_int_equal(stats_get(STATS_malloc_stolen), 1);
}

static void a_site_without_a_fit_takes_another_sites_block(void **state) {
    (void)state;
    CUdeviceptr other = alloc_at(50 * KIB, 2);
    release(other);
    assert_int_equal(alloc_at(50 * KIB, 1), other);
    assert_int_equal(stats_get(STATS_malloc_stolen), 1);
}

static void a_block_freed_belongs_to_the_site_that_allocated_it_last(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = pool_defaults;
    config.steal = false;
    start_with(&config, 80 * GIB);
    CUdeviceptr other = alloc_at(50 * KIB, 2);
    release(other);
    CUdeviceptr own = alloc_at(50 * KIB, 1); /* without stealing: not the other's */
    assert_int_not_equal(own, other);
    release(own);
    assert_int_equal(alloc_at(50 * KIB, 1), own);
    assert_int_equal(alloc_at(50 * KIB, 2), other);
}

static void a_site_keeps_as_many_blocks_as_configured_and_gives_up_the_longest_idle(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = pool_defaults;
    config.site_keep = 2;
    start_with(&config, 80 * GIB);
    CUdeviceptr a = alloc(10 * KIB), b = alloc(20 * KIB), c = alloc(30 * KIB);
    release(b);
    release(a);
    release(c);
    assert_int_equal(fake_size(b), 0);
    assert_int_not_equal(fake_size(a), 0);
    assert_int_not_equal(fake_size(c), 0);
}

static void futharks_rule_keeps_one_block_and_replaces_it(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = {.reuse_ratio = 2, .site_keep = 1, .steal = false};
    start_with(&config, 80 * GIB);
    CUdeviceptr small = alloc(KIB);
    release(small);
    CUdeviceptr large = alloc(10 * KIB);
    release(large);
    assert_int_equal(fake_size(small), 0);
    assert_int_equal(alloc(10 * KIB), large);
}

static void requests_are_rounded_to_512_bytes_and_from_2_mib_on_to_2_mib(void **state) {
    (void)state;
    assert_int_equal(fake_size(alloc(1)), 512);
    assert_int_equal(fake_size(alloc(513)), 1024);
    assert_int_equal(fake_size(alloc(2 * MIB - 1)), 2 * MIB);
    assert_int_equal(fake_size(alloc(2 * MIB)), 2 * MIB);
    assert_int_equal(fake_size(alloc(2 * MIB + 1)), 4 * MIB);
}

static void beyond_the_waste_bound_only_blocks_of_the_same_rounded_size_are_reused(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = pool_defaults;
    config.max_waste = (struct limit){.kind = LIMIT_BYTES, .bytes = 100 * KIB};
    start_with(&config, 80 * GIB);
    CUdeviceptr a = alloc(400 * KIB), b = alloc(400 * KIB);
    release(a);
    release(b);
    CUdeviceptr near = alloc(320 * KIB); /* 80 KiB of waste are allowed, 20 remain */
    assert_true(near == a || near == b);
    CUdeviceptr fresh = alloc(320 * KIB);
    assert_true(fresh != a && fresh != b);
    CUdeviceptr exact = alloc(400 * KIB);
    assert_true(exact == a || exact == b);
    release(near); /* the waste is counted while the block is live */
    assert_int_equal(alloc(320 * KIB), near);
}

static void a_request_leaves_a_fifth_of_the_waste_bound_to_others(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = pool_defaults;
    config.max_waste = (struct limit){.kind = LIMIT_BYTES, .bytes = 100 * KIB};
    start_with(&config, 80 * GIB);
    CUdeviceptr block = alloc(400 * KIB);
    release(block);
    assert_int_not_equal(alloc_at(319 * KIB, 2), block);
    assert_int_equal(alloc_at(320 * KIB, 2), block);
}

/* Of 1000 MiB, 1.5% are 15 MiB, of which a request takes 12; and 1% are 10 MiB: 8. */
static void once_an_allocation_has_failed_that_the_device_is_large_enough_for_less_waste_is_allowed(
    void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 1000 * MIB);
    CUdeviceptr block = alloc(40 * MIB), fresh;
    release(block);
    assert_int_equal(try_alloc(&fresh, GIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    block = alloc(40 * MIB);
    release(block);
    assert_int_equal(alloc(28 * MIB), block);
    assert_int_equal(try_alloc(&fresh, 990 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    release(block);
    block = alloc(40 * MIB);
    release(block);
    assert_int_not_equal(alloc_at(30 * MIB, 2), block);
    assert_int_equal(alloc_at(32 * MIB, 2), block);
}

static void let_the_peak_stand(CUdeviceptr *block) {
    for (int i = 0; i < 100; i++) {
        *block = alloc(40 * MIB);
        release(*block);
    }
}

/* Of 1000 MiB, 1.5% and 2% are 15 and 20 MiB, of which a request takes 12 and 16. */
static void more_may_go_to_waste_once_the_peak_has_stood(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 1000 * MIB);
    CUdeviceptr block = alloc(40 * MIB);
    release(block);
    assert_int_not_equal(alloc_at(26 * MIB, 2), block);
    let_the_peak_stand(&block);
    assert_int_not_equal(alloc_at(22 * MIB, 2), block);
    assert_int_equal(alloc_at(24 * MIB, 2), block);
}

/* Of 500 MiB, 1.5% and 2% are 7.5 and 10 MiB, of which a request takes 6 and 8. */
static void where_little_lies_above_the_peak_no_more_goes_to_waste(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 500 * MIB);
    alloc_at(400 * MIB, 2);
    CUdeviceptr block;
    let_the_peak_stand(&block);
    assert_int_not_equal(alloc_at(32 * MIB, 2), block);
    assert_int_equal(alloc_at(34 * MIB, 2), block);
}

static void by_default_waste_is_bounded_by_a_share_of_the_device(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults,
               700 * MIB); /* 1.5% is 10.5 MiB, less than the 32 MiB for small programs */
    CUdeviceptr block = alloc(40 * MIB);
    release(block);
    CUdeviceptr within = alloc(31 * MIB); /* held as 32 MiB, 8 MiB less than the block */
    assert_int_equal(within, block);
    release(within);
    assert_int_not_equal(alloc_at(27 * MIB, 2), block); /* 12 MiB less */
}

/* Blocks of 64 MiB serve no request of 16 MiB. */
static void a_site_whose_sizes_only_fall_gives_up_what_is_too_large_before_more_is_held_than_ever(
    void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&wasting_32_mib);
    uint64_t used = stats_get(STATS_held_bytes);
    CUdeviceptr one = alloc(64 * MIB), other = alloc(64 * MIB);
    release(one);
    release(other);
    alloc(16 * MIB);
    assert_int_equal(stats_get(STATS_held_bytes) - used, 80 * MIB);
    alloc(8 * MIB); /* less is held than was before */
    assert_int_equal(stats_get(STATS_held_bytes) - used, 88 * MIB);
    assert_int_equal(stats_get(STATS_driver_frees), 1);
    assert_true(pool_is_valid(pool));
}

static void a_site_with_larger_sizes_after_smaller_ones_keeps_what_is_too_large(void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&pool_defaults);
    release(alloc(48 * MIB));
    release(alloc(64 * MIB));
    release(alloc(10 * MIB));
    assert_int_equal(stats_get(STATS_driver_frees), 0);
}

/* It is 8 times the request, which adds little to what is held. */
static void a_block_many_times_larger_than_a_request_stays_for_others(void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&pool_defaults);
    CUdeviceptr block = alloc(64 * MIB);
    release(block);
    alloc(8 * MIB);
    assert_int_equal(stats_get(STATS_driver_frees), 0);
    assert_int_equal(alloc_at(60 * MIB, 2), block);
}

static void another_sites_block_that_is_too_large_stays(void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&pool_defaults);
    release(alloc_at(64 * MIB, 1));
    alloc_at(20 * MIB, 2);
    alloc_at(10 * MIB, 2);
    assert_int_equal(stats_get(STATS_driver_frees), 0);
}

static void a_block_too_large_that_is_smaller_than_a_page_stays(void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&pool_defaults);
    release(alloc(MIB));
    alloc(64 * KIB);
    assert_int_equal(stats_get(STATS_driver_frees), 0);
}

static CUdeviceptr freed_meanwhile;

static void free_meanwhile(void) {
    fake.on_query = NULL;
    release(freed_meanwhile);
}

static void
a_block_of_just_the_size_that_is_freed_meanwhile_is_not_given_up_as_too_large(void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&pool_defaults);
    CUdeviceptr large = alloc_at(32 * MIB, 1);
    alloc_at(16 * MIB, 1);
    release(alloc_at(8 * MIB, 2));
    freed_meanwhile = alloc_at(8 * MIB, 1); /* the other site's, so that it is no miss */
    release(large);
    fake.on_query = free_meanwhile;
    alloc_at(8 * MIB, 1);
    assert_null(fake.on_query);
    assert_int_equal(fake_size(freed_meanwhile), 8 * MIB);
    assert_int_equal(fake_size(large), 0);
}

static void a_block_too_large_stays_where_its_free_would_wait(void **state) {
    (void)state;
    stop(NULL);
    start_where_much_is_used(&pool_defaults);
    release(alloc(64 * MIB));
    fake.quiet = false;
    alloc(16 * MIB);
    assert_int_equal(stats_get(STATS_driver_frees), 0);
    assert_int_equal(stats_get(STATS_bound_postponed), 1);
}

static void waste_can_be_bounded_by_a_share(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = pool_defaults;
    config.max_waste = (struct limit){.kind = LIMIT_PERCENT, .percent = 50};
    start_with(&config, 1000 * MIB);
    CUdeviceptr block = alloc(400 * MIB);
    release(block);
    assert_int_equal(alloc(200 * MIB), block);
}

static void a_pitched_block_is_reused_for_a_width_whose_pitch_is_known(void **state) {
    (void)state;
    struct call_site key = site(1);
    CUdeviceptr first, second;
    size_t pitch = 0;
    assert_int_equal(pool_malloc_pitch(pool, &first, &pitch, 1000, 64, 4, &key), CUDA_SUCCESS);
    assert_int_equal(pitch, 1024);
    release(first);
    pitch = 0;
    assert_int_equal(pool_malloc_pitch(pool, &second, &pitch, 1000, 64, 4, &key), CUDA_SUCCESS);
    assert_int_equal(second, first);
    assert_int_equal(pitch, 1024);
    assert_true(pool_is_valid(pool));
    release(second);
    /* Neither another width nor another element size may guess a pitch. */
    assert_int_equal(pool_malloc_pitch(pool, &second, &pitch, 1001, 64, 4, &key), CUDA_SUCCESS);
    assert_int_not_equal(second, first);
    assert_int_equal(pool_malloc_pitch(pool, &second, &pitch, 1000, 64, 8, &key), CUDA_SUCCESS);
    assert_int_not_equal(second, first);
    assert_true(pool_is_valid(pool));
}

static void what_the_driver_refuses_is_the_drivers_answer(void **state) {
    (void)state;
    CUdeviceptr pointer;
    struct call_site key = site(1);
    size_t pitch;
    assert_int_equal(try_alloc(&pointer, 0, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_alloc(NULL, 100, 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_alloc(&pointer, SIZE_MAX, 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(pool_malloc_pitch(pool, &pointer, &pitch, 1000, 0, 4, &key),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(pool_malloc_pitch(pool, &pointer, &pitch, 1000, 8, 3, &key),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(try_free(0), CUDA_SUCCESS);
}

/* As of a program that goes on loading or making code: what is kept about its sites is bounded. */
static void sites_beyond_a_number_are_one(void **state) {
    enum { MANY = 70000, MOST = 1 << 16 };
    (void)state;
    CUdeviceptr block = 0;
    for (uintptr_t number = 1; number <= MANY; number++) {
        struct call_site key = site(number * 16);
        assert_int_equal(pool_malloc(pool, &block, 1000, &key), CUDA_SUCCESS);
        assert_int_equal(pool_free(pool, block), CUDA_SUCCESS);
    }
    assert_true(pool_is_valid(pool));
    assert_int_equal(HASH_CNT(by_key, pool->site_records), MOST + 1);
    assert_int_equal(alloc_at(1000, 1), block);
    assert_int_equal(fake.allocs, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(freed_memory_serves_its_site_again),
        TEST(a_block_of_exactly_the_ratio_is_reused_and_a_larger_one_is_not),
        TEST(while_little_of_the_device_is_used_a_block_of_any_size_serves_within_the_bound),
        TEST(once_a_twentieth_of_the_device_was_used_the_ratio_decides_for_good),
        TEST(small_requests_that_stay_leave_waste_for_blocks_of_about_a_requests_size),
        TEST(sites_beyond_a_number_are_one),
        TEST(once_most_allocations_hit_the_ratio_decides),
        TEST(after_a_failure_the_ratio_decides_on_an_empty_device_as_well),
        TEST(once_memory_was_given_back_a_block_that_wastes_little_serves),
        TEST(a_little_waste_is_measured_by_the_bound_and_none_is_at_a_ratio_of_one),
        TEST(a_site_whose_sizes_only_grow_is_given_more_than_it_asks_for),
        TEST(a_site_is_given_what_it_asks_for_if_a_size_was_no_larger_than_before),
        TEST(a_site_is_given_what_it_asks_for_if_many_requests_hit_between_its_misses),
        TEST(where_the_driver_has_not_so_much_a_growing_site_gets_what_it_asks_for),
        TEST(the_ratio_counts_requests_as_made_not_as_rounded),
        TEST(the_smallest_block_that_fits_is_taken),
        TEST(a_block_too_small_is_never_handed_out),
        TEST(the_best_fit_serves_and_among_equals_the_sites_own),
        TEST(a_site_without_a_fit_takes_another_sites_block),
        TEST(a_block_freed_belongs_to_the_site_that_allocated_it_last),
        TEST(a_site_keeps_as_many_blocks_as_configured_and_gives_up_the_longest_idle),
        TEST(futharks_rule_keeps_one_block_and_replaces_it),
        TEST(requests_are_rounded_to_512_bytes_and_from_2_mib_on_to_2_mib),
        TEST(beyond_the_waste_bound_only_blocks_of_the_same_rounded_size_are_reused),
        TEST(a_request_leaves_a_fifth_of_the_waste_bound_to_others),
        TEST(
            once_an_allocation_has_failed_that_the_device_is_large_enough_for_less_waste_is_allowed),
        TEST(more_may_go_to_waste_once_the_peak_has_stood),
        TEST(where_little_lies_above_the_peak_no_more_goes_to_waste),
        TEST(by_default_waste_is_bounded_by_a_share_of_the_device),
        TEST(a_site_whose_sizes_only_fall_gives_up_what_is_too_large_before_more_is_held_than_ever),
        TEST(a_block_many_times_larger_than_a_request_stays_for_others),
        TEST(a_site_with_larger_sizes_after_smaller_ones_keeps_what_is_too_large),
        TEST(another_sites_block_that_is_too_large_stays),
        TEST(a_block_too_large_that_is_smaller_than_a_page_stays),
        TEST(a_block_of_just_the_size_that_is_freed_meanwhile_is_not_given_up_as_too_large),
        TEST(a_block_too_large_stays_where_its_free_would_wait),
        TEST(waste_can_be_bounded_by_a_share),
        TEST(a_pitched_block_is_reused_for_a_width_whose_pitch_is_known),
        TEST(what_the_driver_refuses_is_the_drivers_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
