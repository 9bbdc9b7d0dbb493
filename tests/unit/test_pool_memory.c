/* Frees, bounds on idle memory, and running out of it. */
#include "peers/own_open.h"
#include "pool_test.h"

static void a_free_waits_for_the_context(void **state) {
    (void)state;
    release(alloc(1000));
    assert_int_equal(fake.event_waits, 1);
    assert_null(fake.recorded_in); /* the event is behind all of it */
}

static void a_second_free_of_an_idle_block_is_invalid(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    release(block);
    assert_int_equal(try_free(block), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stats_get(STATS_free_double), 1);
    assert_int_equal(alloc(1000), block);
    assert_int_not_equal(alloc(1000), block);
}

static CUdeviceptr freed_twice;

static void free_again(void) {
    fake.on_wait = NULL;
    assert_int_equal(pool_free(pool, freed_twice), CUDA_ERROR_INVALID_VALUE);
}

static void a_second_free_during_the_wait_of_the_first_is_invalid(void **state) {
    (void)state;
    freed_twice = alloc(1000);
    fake.on_wait = free_again;
    release(freed_twice);
    assert_int_equal(stats_get(STATS_idle_blocks), 1);
}

static void pointers_of_others_are_the_drivers(void **state) {
    (void)state;
    CUdeviceptr foreign;
    assert_int_equal(fake_driver()->mem_alloc(&foreign, 100), CUDA_SUCCESS);
    release(foreign);
    assert_int_equal(fake_size(foreign), 0);
    assert_int_equal(try_free(0x1234), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(stats_get(STATS_free_unknown), 2);
}

static void a_block_whose_wait_and_free_fail_is_live_again(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    fake.wait_result = fake.free_result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(try_free(block), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(stats_get(STATS_live_blocks), 1);
    fake.wait_result = fake.free_result = CUDA_SUCCESS;
    release(block);
    assert_int_equal(alloc(1000), block);
}

static void after_a_sticky_error_everything_goes_to_the_driver(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000), other = alloc(1000);
    fake.wait_result = fake.free_result = CUDA_ERROR_ILLEGAL_ADDRESS;
    fake.lost[0] = fake.current;
    assert_int_equal(try_free(block), CUDA_ERROR_ILLEGAL_ADDRESS);
    fake.waits = 0;
    assert_int_equal(try_free(other), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(fake.waits, 0);
    alloc(1000);
    assert_true(stats_get(STATS_passed_errors) > 0);
}

static void after_the_driver_has_shut_down_everything_goes_to_it(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000), pointer;
    fake.current_result = fake.free_result = CUDA_ERROR_DEINITIALIZED;
    fake.wait_result = CUDA_ERROR_DEINITIALIZED;
    assert_int_equal(try_free(block), CUDA_ERROR_DEINITIALIZED);
    (void)try_alloc(&pointer, 1000, 1);
    assert_int_equal(stats_get(STATS_malloc_hits), 0);
}

static void a_tainted_block_is_really_freed(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000), inside = alloc(5000);
    pool_taint(pool, block, POOL_TAINT_IPC);
    pool_taint(pool, inside + 700, POOL_TAINT_SYNC_MEMOPS);
    release(block);
    release(inside);
    assert_int_equal(fake_size(block), 0);
    assert_int_equal(fake_size(inside), 0);
    assert_int_equal(stats_get(STATS_tainted_blocks), 2);
}

static void idle_memory_counts_as_free(void **state) {
    (void)state;
    size_t available, total;
    CUdeviceptr block = alloc(10 * MIB);
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    assert_int_equal(available, 80 * GIB - 10 * MIB);
    release(block);
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    assert_int_equal(available, 80 * GIB);
    assert_int_equal(total, 80 * GIB);
}

static size_t reported_free(void) {
    size_t available = 0, total = 0;
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    return available;
}

static void small_idle_blocks_count_as_free_once_their_page_has_no_live_one(void **state) {
    (void)state;
    CUdeviceptr one = alloc(1000), two = alloc(1000);
    size_t taken = fake.used;
    release(one);
    assert_int_equal(reported_free(), 80 * GIB - taken);
    release(two);
    assert_int_equal(reported_free(), 80 * GIB); /* a page, but never more than there is */
}

static void other_calls_that_run_out_have_idle_memory_released(void **state) {
    (void)state;
    release(alloc(32 * MIB));
    release(alloc(40 * MIB));
    assert_true(pool_make_room(pool, "cuLaunchKernel", 0, POOL_ASKS_NO_MEMORY));
    assert_int_equal(stats_get(STATS_idle_bytes), 0);
    assert_false(pool_make_room(pool, "cuLaunchKernel", 1, POOL_ASKS_NO_MEMORY));
    assert_int_equal(stats_get(STATS_oom_events), 1);
}

/* What another thread gives back while the driver refuses may be gone from the pool by then. */
static void other_calls_that_run_out_are_made_once_more_where_memory_was_given_back(void **state) {
    (void)state;
    release(alloc(32 * MIB));
    assert_int_equal(pool_release(pool, 0, SIZE_MAX), 32 * MIB);
    assert_int_equal(stats_get(STATS_idle_bytes), 0);
    assert_true(pool_make_room(pool, "cuLaunchKernel", 0, POOL_ASKS_NO_MEMORY));
    assert_false(pool_make_room(pool, "cuLaunchKernel", 1, POOL_ASKS_NO_MEMORY));
}

static void in_a_capture_only_allocations_have_idle_memory_released(void **state) {
    (void)state;
    release(alloc(32 * MIB));
    pool_capture_began(pool, "test");
    assert_false(pool_make_room(pool, "cuLaunchKernel", 0, POOL_ASKS_NO_MEMORY));
    assert_true(pool_make_room(pool, "cuMemAllocAsync", 0, POOL_ASKS_DEVICE_MEMORY));
    assert_int_equal(fake.freed_in_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    assert_int_equal(fake.capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    pool_capture_ended(pool);
}

static void some_memory_stays_free_for_launches(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.max_idle = (struct limit){.kind = LIMIT_PERCENT, .percent = 100};
    start_with(&config, GIB);
    CUdeviceptr idle = alloc(600 * MIB);
    release(idle);
    alloc_at(416 * MIB, 2); /* leaves 8 MiB: less than 1% of the device */
    assert_int_equal(fake_size(idle), 0);
    assert_int_equal(stats_get(STATS_headroom_released_blocks), 1);
}

static void on_a_busy_device_the_headroom_is_not_worth_a_wait(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.max_idle = (struct limit){.kind = LIMIT_PERCENT, .percent = 100};
    start_with(&config, GIB);
    CUdeviceptr idle = alloc(600 * MIB);
    release(idle);
    fake.quiet = false;
    alloc_at(416 * MIB, 2);
    assert_int_not_equal(fake_size(idle), 0);
}

static struct shortage told;
static int told_times;
static void tell(const struct shortage *shortage) {
    told = *shortage;
    told_times++;
}

static void a_request_that_fails_is_reported_once_with_the_facts(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    stats_open(NULL, false, NULL); /* figures for each site */
    config.on_shortage = tell;
    start_with(&config, 100 * MIB);
    told_times = 0;
    for (uintptr_t number = 1; number <= 4; number++)
        alloc_at(number * 6 * MIB, number);
    CUdeviceptr pointer;
    assert_int_equal(try_alloc(&pointer, 60 * MIB, 9), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(told_times, 1);
    assert_string_equal(told.call, "cuMemAlloc");
    assert_int_equal(told.requested, 60 * MIB);
    assert_int_equal(told.capacity, 100 * MIB);
    assert_int_equal(told.available, 40 * MIB);
    assert_int_equal(told.live, 60 * MIB);
    assert_int_equal(told.idle, 0);
    assert_int_equal(told.site_count, SHORTAGE_SITES);
    for (unsigned i = 0; i < SHORTAGE_SITES; i++) {
        assert_int_equal(told.sites[i].key.frames[0], 4 - i);
        assert_int_equal(told.sites[i].bytes, (4 - i) * 6 * MIB);
        assert_int_equal(told.sites[i].blocks, 1);
    }
}

static void a_live_block_tells_its_request_and_an_idle_one_does_not_exist(void **state) {
    (void)state;
    size_t bytes = 0;
    CUdeviceptr block = alloc(1000);
    assert_int_equal(pool_pointer_state(pool, block, &bytes), POOL_POINTER_LIVE);
    assert_int_equal(bytes, 1000);
    release(block);
    assert_int_equal(pool_pointer_state(pool, block, &bytes), POOL_POINTER_IDLE);
    assert_int_equal(pool_pointer_state(pool, 0x77, &bytes), POOL_POINTER_UNKNOWN);
}

static void expect_place(CUdeviceptr pointer, enum pool_pointer_state state, CUdeviceptr base,
                         size_t requested) {
    struct pool_place place = pool_find_place(pool, pointer);
    assert_int_equal(place.state, state);
    assert_int_equal(place.base, base);
    assert_int_equal(place.requested, requested);
}

static void
an_address_inside_a_block_is_known_and_one_beyond_its_request_does_not_exist(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000), large = alloc(7 * MIB);
    expect_place(block, POOL_POINTER_LIVE, block, 1000);
    expect_place(block + 999, POOL_POINTER_LIVE, block, 1000);
    expect_place(block + 1000, POOL_POINTER_IDLE, block, 1000);
    expect_place(large + 7 * MIB - 1, POOL_POINTER_LIVE, large, 7 * MIB);
    expect_place(large + 7 * MIB, POOL_POINTER_IDLE, large, 7 * MIB);
    expect_place(large + 8 * MIB, POOL_POINTER_UNKNOWN, 0, 0);
    expect_place(0x77, POOL_POINTER_UNKNOWN, 0, 0);
    release(large);
    expect_place(large + 5, POOL_POINTER_IDLE, large, 0);
    assert_true(pool_is_valid(pool));
}

/* The index is there from the first question on, while blocks come and go by all ways. */
static void
addresses_inside_blocks_are_known_whatever_comes_and_goes_after_the_first_question(void **state) {
    (void)state;
    enum { BLOCKS = 200 };
    CUdeviceptr blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0};
    uint32_t random = 1;
    expect_place(0x77, POOL_POINTER_UNKNOWN, 0, 0);
    for (int i = 0; i < 4000; i++) {
        random = random * 1664525 + 1013904223;
        unsigned slot = (random >> 8) % BLOCKS;
        if (blocks[slot])
            release(blocks[slot]);
        sizes[slot] = 1 + (random >> 4) % (random & 1 << 20 ? 5 * MIB : 5000);
        blocks[slot] = random >> 31 || !blocks[slot] ? alloc(sizes[slot]) : 0;
        if (i % 500 == 0)
            pool_release(pool, 0, 50 * MIB);
        if (i % 100 == 0)
            assert_true(pool_is_valid(pool));
    }
    for (int slot = 0; slot < BLOCKS; slot++)
        if (blocks[slot])
            expect_place(blocks[slot] + sizes[slot] - 1, POOL_POINTER_LIVE, blocks[slot],
                         sizes[slot]);
    pool_primary_ending(pool, 0);
    for (int slot = 0; slot < BLOCKS; slot++)
        if (blocks[slot])
            expect_place(blocks[slot] + sizes[slot] - 1, POOL_POINTER_UNKNOWN, 0, 0);
    assert_true(pool_is_valid(pool));
}

static void a_block_freed_by_other_means_is_forgotten_or_comes_back(void **state) {
    (void)state;
    CUdeviceptr block = alloc(1000);
    struct pool_block *record = pool_disown(pool, block);
    assert_non_null(record);
    assert_null(pool_disown(pool, block));
    pool_readopt(pool, record);
    assert_true(pool_is_valid(pool));
    record = pool_disown(pool, block);
    pool_disown_done(pool, record);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_held_bytes), 0);
}

/* Idle memory. */

static void held_memory_stays_under_its_bound_the_largest_block_going_first(void **state) {
    (void)state;
    CUdeviceptr keep = alloc(100 * MIB), large = alloc_at(90 * MIB, 2),
                small = alloc_at(50 * MIB, 3);
    (void)keep;
    release(large);
    release(small);
    /* peak live 240 MiB: 364 MiB may be held */
    assert_int_not_equal(fake_size(large), 0);
    CUdeviceptr grown = alloc_at(200 * MIB, 4);
    (void)grown; /* live 300, so 439 may be held, and 440 would be */
    assert_int_equal(fake_size(large), 0);
    assert_int_not_equal(fake_size(small), 0);
    assert_int_equal(stats_get(STATS_bound_released_blocks), 1);
}

static void a_miss_does_not_release_while_the_device_is_busy(void **state) {
    (void)state;
    CUdeviceptr keep = alloc(100 * MIB), large = alloc_at(90 * MIB, 2),
                small = alloc_at(50 * MIB, 3);
    release(large);
    release(small);
    fake.quiet = false;
    alloc_at(200 * MIB, 4);
    assert_int_not_equal(fake_size(large), 0);
    assert_int_equal(stats_get(STATS_bound_postponed), 1);
    release(keep); /* its wait is over, but later work would be waited for */
    assert_int_not_equal(fake_size(keep), 0);
    assert_true(stats_get(STATS_held_bytes) > 439u * MIB);
    fake.quiet = true;
    release(alloc_at(MIB, 5)); /* the next free makes up for it: 541 MiB held, 440 allowed */
    assert_int_equal(fake_size(keep), 0);
    assert_true(stats_get(STATS_held_bytes) <= 440u * MIB);
}

static void idle_memory_can_be_bounded_by_bytes(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = pool_defaults;
    config.max_idle = (struct limit){.kind = LIMIT_BYTES, .bytes = 10 * MIB};
    start_with(&config, 80 * GIB);
    CUdeviceptr a = alloc(6 * MIB), b = alloc(8 * MIB);
    release(a);
    release(b);
    assert_int_equal(fake_size(b), 0);
    assert_int_equal(stats_get(STATS_idle_bytes), 6 * MIB);
}

static void idle_memory_can_be_switched_off(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config config = pool_defaults;
    config.max_idle = (struct limit){.kind = LIMIT_BYTES, .bytes = 0};
    start_with(&config, 80 * GIB);
    release(alloc(1000));
    assert_int_equal(fake.used, 0);
}

static void a_trim_gives_back_the_largest_blocks_first(void **state) {
    (void)state;
    CUdeviceptr a = alloc_at(10 * MIB, 1), b = alloc_at(20 * MIB, 2), c = alloc_at(4 * MIB, 3);
    release(a);
    release(b);
    release(c);
    assert_int_equal(pool_release(pool, 0, 15 * MIB), 20 * MIB);
    assert_int_equal(fake_size(b), 0);
    assert_int_equal(pool_release(pool, 0, SIZE_MAX), 14 * MIB);
    assert_int_equal(pool_release(pool, 0, SIZE_MAX), 0);
    assert_int_equal(pool_release(pool, 3, SIZE_MAX), 0);
    assert_true(pool_is_valid(pool));
}

/* Out of memory. */

static void out_of_memory_releases_the_largest_idle_blocks_just_enough(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 100 * MIB);
    CUdeviceptr a = alloc_at(20 * MIB, 1), b = alloc_at(40 * MIB, 2), c = alloc_at(30 * MIB, 3);
    release(a);
    release(b);
    release(c);
    alloc_at(42 * MIB, 4);
    assert_int_equal(fake_size(b), 0);
    assert_int_not_equal(fake_size(a), 0);
    assert_int_equal(stats_get(STATS_oom_events), 1);
    assert_int_equal(stats_get(STATS_oom_rescued), 1);
}

static void out_of_memory_releases_everything_before_it_is_an_error(void **state) {
    (void)state;
    CUdeviceptr blocks[20], pointer;
    stop(NULL);
    start_with(&pool_defaults, 100 * MIB);
    for (int i = 0; i < 20; i++)
        blocks[i] = alloc_at(4 * MIB, (uintptr_t)i);
    for (int i = 0; i < 20; i++)
        release(blocks[i]);
    alloc(100 * MIB); /* all of the device, as natively */
    assert_int_equal(try_alloc(&pointer, 2 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
}

static void rounding_is_never_the_reason_for_an_error(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 10 * MIB + 100);
    CUdeviceptr all = alloc(10 * MIB + 100);
    assert_int_equal(fake_size(all), 10 * MIB + 100);
    release(all);
    assert_int_equal(fake.used, 10 * MIB + 100);
}

static CUdeviceptr given_back;

static void free_one(void) {
    fake.on_alloc = NULL;
    assert_int_equal(pool_free(pool, given_back), CUDA_SUCCESS);
}

static void a_block_freed_meanwhile_is_found_by_the_retry(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 10 * MIB);
    given_back = alloc(10 * MIB);
    fake.on_alloc = free_one; /* in the midst of the driver's refusal */
    CUdeviceptr pointer = 0;
    assert_int_equal(try_alloc(&pointer, 10 * MIB, 1), CUDA_SUCCESS);
}

static void give_all_back(void) {
    fake.on_refusal = NULL;
    pool_release(pool, 0, SIZE_MAX);
}

static void what_another_thread_gives_back_just_after_the_refusal_serves(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 100 * MIB);
    alloc_at(60 * MIB, 1);
    release(alloc_at(30 * MIB, 2));
    fake.on_refusal = give_all_back;
    alloc_at(36 * MIB, 3);
    assert_null(fake.on_refusal);
}

static void a_block_found_by_the_retry_is_cleared_on_request(void **state) {
    (void)state;
    struct pool_config config = pool_defaults;
    stop(NULL);
    config.zero = true;
    start_with(&config, 36 * MIB);
    release(alloc_at(24 * MIB, 2)); /* too large for the request: what the retry releases */
    given_back = alloc(10 * MIB);
    fake.on_alloc = free_one;
    CUdeviceptr pointer = alloc(10 * MIB);
    assert_int_equal(pointer, given_back);
    assert_int_equal(fake.cleared, pointer);
    assert_int_equal(fake.cleared_bytes, 10 * MIB);
}

static void pressure_frees(CUdeviceptr pointer) {
    (void)pointer;
    fake.on_free = NULL;
    int waits = fake.waits;
    assert_int_equal(pool_free(pool, given_back), CUDA_SUCCESS); /* another thread's free, say */
    assert_int_equal(fake.waits, waits);
    assert_int_equal(fake_size(given_back), 0);
}

static void while_memory_is_short_frees_go_to_the_driver(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 28 * MIB);
    given_back = alloc_at(8 * MIB, 2);
    release(alloc(10 * MIB));
    fake.on_free = pressure_frees;
    alloc_at(20 * MIB, 3);
}

static CUdeviceptr alloc_pitched(size_t rows, size_t *pitch) {
    CUdeviceptr pointer = 0;
    struct call_site key = site(5);
    assert_int_equal(pool_malloc_pitch(pool, &pointer, pitch, 1000, rows, 4, &key), CUDA_SUCCESS);
    assert_int_equal(*pitch, 1024);
    assert_true(fake_size(pointer) >= rows * 1024);
    assert_true(pool_is_valid(pool));
    return pointer;
}

static void a_pitched_request_out_of_memory_releases_idle_blocks(void **state) {
    (void)state;
    size_t pitch = 0;
    stop(NULL);
    start_with(&pool_defaults, 10 * MIB);
    release(alloc_at(KIB, 2));
    release(alloc(8 * MIB));
    alloc_pitched(9 * KIB, &pitch); /* 9 MiB of a pitch that is not known yet */
}

static void a_pitched_request_served_by_the_retry_has_its_pitch(void **state) {
    (void)state;
    size_t pitch = 0;
    stop(NULL);
    start_with(&pool_defaults, 10 * MIB);
    given_back = alloc_pitched(9 * KIB, &pitch);
    pitch = 0;
    fake.on_alloc = free_one;
    alloc_pitched(9 * KIB, &pitch);
}

static void other_errors_of_the_driver_are_passed_on(void **state) {
    (void)state;
    CUdeviceptr pointer;
    fake.current = NULL;
    assert_int_equal(try_alloc(&pointer, 1000, 1), CUDA_ERROR_INVALID_CONTEXT);
}

/* Captures. */

static void during_a_capture_the_pool_only_forwards(void **state) {
    (void)state;
    CUdeviceptr before = alloc(1000), idle = alloc(2000);
    release(idle);
    fake.waits = 0;
    pool_capture_began(pool, "test");
    CUdeviceptr during = alloc(2000);
    assert_int_not_equal(during, idle);
    release(during);
    assert_int_equal(fake_size(during), 0);
    release(before);
    assert_int_equal(fake_size(before), 0);
    assert_int_equal(fake.waits, 0);
    assert_int_equal(pool_release(pool, 0, SIZE_MAX), 0);
    pool_capture_ended(pool);
    assert_int_equal(alloc(2000), idle);
    assert_true(stats_get(STATS_capture_passed) > 0);
}

static void during_a_capture_out_of_memory_still_releases(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 10 * MIB);
    release(alloc(8 * MIB));
    pool_capture_began(pool, "test");
    alloc(10 * MIB);
    pool_capture_ended(pool);
}

static void a_refused_release_keeps_the_block(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 10 * MIB);
    CUdeviceptr pointer, idle = alloc(8 * MIB);
    release(idle);
    fake.free_result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    assert_int_equal(try_alloc(&pointer, 9 * MIB, 1), CUDA_ERROR_OUT_OF_MEMORY);
    fake.free_result = CUDA_SUCCESS;
    assert_int_equal(alloc(8 * MIB), idle);
}

static void free_while_it_goes_back(CUdeviceptr pointer) {
    fake.on_free = NULL;
    pool_free(pool, pointer);
}

static void what_a_second_free_has_given_the_driver_is_not_handed_out(void **state) {
    (void)state;
    stop(NULL);
    start_with(&pool_defaults, 10 * MIB);
    CUdeviceptr idle = alloc(8 * MIB);
    release(idle);
    fake.on_free = free_while_it_goes_back;
    CUdeviceptr larger = alloc(9 * MIB);
    assert_null(fake.on_free);
    release(larger);
    alloc(8 * MIB); /* which sees that the driver knows it */
}

static CUresult tell_nothing_free(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = 0;
    *total_bytes = fake.capacity;
    return CUDA_SUCCESS;
}

/* Pages that others have begun count as used, and what fits into them is given all the same. */
static void
rounding_fails_no_request_of_which_the_driver_has_as_much_though_it_tells_of_less(void **state) {
    (void)state;
    struct driver driver = *fake_driver();
    struct pool_config config = pool_defaults;
    const struct policy *policy = policies;
    while (strcmp(policy->name, "bins") != 0)
        policy++;
    config.policy = policy;
    driver.mem_get_info = tell_nothing_free;
    stop(NULL);
    start_with(&config, 3 * MIB / 2);
    fake.pages = true;
    pool_destroy(pool);
    pool = pool_create(&config, &driver);
    CUdeviceptr pointer;
    assert_int_equal(try_alloc(&pointer, MIB, 1), CUDA_SUCCESS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_free_waits_for_the_context),
        TEST(a_second_free_of_an_idle_block_is_invalid),
        TEST(a_second_free_during_the_wait_of_the_first_is_invalid),
        TEST(pointers_of_others_are_the_drivers),
        TEST(a_block_whose_wait_and_free_fail_is_live_again),
        TEST(after_a_sticky_error_everything_goes_to_the_driver),
        TEST(after_the_driver_has_shut_down_everything_goes_to_it),
        TEST(a_tainted_block_is_really_freed),
        TEST(idle_memory_counts_as_free),
        TEST(a_live_block_tells_its_request_and_an_idle_one_does_not_exist),
        TEST(an_address_inside_a_block_is_known_and_one_beyond_its_request_does_not_exist),
        TEST(addresses_inside_blocks_are_known_whatever_comes_and_goes_after_the_first_question),
        TEST(a_block_freed_by_other_means_is_forgotten_or_comes_back),
        TEST(held_memory_stays_under_its_bound_the_largest_block_going_first),
        TEST(a_miss_does_not_release_while_the_device_is_busy),
        TEST(idle_memory_can_be_bounded_by_bytes),
        TEST(idle_memory_can_be_switched_off),
        TEST(a_trim_gives_back_the_largest_blocks_first),
        TEST(out_of_memory_releases_the_largest_idle_blocks_just_enough),
        TEST(out_of_memory_releases_everything_before_it_is_an_error),
        TEST(rounding_is_never_the_reason_for_an_error),
        TEST(a_block_freed_meanwhile_is_found_by_the_retry),
        TEST(what_another_thread_gives_back_just_after_the_refusal_serves),
        TEST(a_block_found_by_the_retry_is_cleared_on_request),
        TEST(while_memory_is_short_frees_go_to_the_driver),
        TEST(a_pitched_request_out_of_memory_releases_idle_blocks),
        TEST(a_pitched_request_served_by_the_retry_has_its_pitch),
        TEST(other_errors_of_the_driver_are_passed_on),
        TEST(during_a_capture_the_pool_only_forwards),
        TEST(during_a_capture_out_of_memory_still_releases),
        TEST(a_refused_release_keeps_the_block),
        TEST(what_a_second_free_has_given_the_driver_is_not_handed_out),
        TEST(small_idle_blocks_count_as_free_once_their_page_has_no_live_one),
        TEST(other_calls_that_run_out_have_idle_memory_released),
        TEST(other_calls_that_run_out_are_made_once_more_where_memory_was_given_back),
        TEST(in_a_capture_only_allocations_have_idle_memory_released),
        TEST(some_memory_stays_free_for_launches),
        TEST(on_a_busy_device_the_headroom_is_not_worth_a_wait),
        TEST(a_request_that_fails_is_reported_once_with_the_facts),
        TEST(rounding_fails_no_request_of_which_the_driver_has_as_much_though_it_tells_of_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
