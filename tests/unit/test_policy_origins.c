/* What each preset keeps of its origin (docs/policies.md), on the simulated GPU's driver. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "keep/region.h"
#include "options/options.h"
#include "options/pool_options.h"
#include "pool/internal.h"
#include "whole_end.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define MIB ((size_t)1 << 20)

enum { A = 1, B, C }; /* sites */

static struct driver driver;
static struct pool *pool;

static void *find_symbol(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static void say(const char *line) {
    fail_msg("%s", line);
}

/* A pool with the options that the preset stands for, and others, with a blank between them. */
static void start(const char *preset, const char *others) {
    char text[128];
    char *environment[4] = {NULL}, *rest = text;
    struct options options;
    CUcontext context;
    snprintf(text, sizeof text, "POOLCUDA_PRESET=%s %s", preset, others);
    for (size_t i = 0; i < 3 && rest; i++)
        environment[i] = strsep(&rest, " ");
    options_parse(&options, environment, say);
    struct pool_config config = pool_config_from(&options);
    for (int i = 0; i < STATS_COUNTERS; i++)
        stats_set((enum stats_counter)i, 0);
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_true(driver_fill(&driver, find_symbol));
    pool = pool_create(&config, &driver);
    assert_non_null(pool);
}

static int stop(void **state) {
    (void)state;
    CUresult ended = end_primary_for_good(pool);
    pool_destroy(pool);
    cuCtxSetCurrent(NULL);
    return ended != CUDA_SUCCESS || cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS;
}

static CUdeviceptr alloc(int number, size_t bytes) {
    struct call_site site = {.frames = {(uintptr_t)number}, .depth = 1};
    CUdeviceptr pointer = 0;
    assert_int_equal(pool_malloc(pool, &pointer, bytes, &site), CUDA_SUCCESS);
    assert_true(pool_is_valid(pool));
    return pointer;
}

static void release(CUdeviceptr pointer) {
    assert_int_equal(pool_free(pool, pointer), CUDA_SUCCESS);
    assert_true(pool_is_valid(pool));
}

static uint64_t hits(void) {
    return stats_get(STATS_malloc_hits);
}

struct idle_figures {
    size_t blocks, bytes, largest;
};

static struct idle_figures idle(void) {
    pool_lock(pool);
    struct idle_store *store = &LIST_FIRST(&pool->contexts)->store;
    const struct pool_block *largest = pool->keeper->largest(store);
    struct idle_figures figures = {store->count, store->bytes, largest ? largest->size : 0};
    pool_unlock(pool);
    return figures;
}

/* --- futhark --- */

static void futhark_serves_a_tag_from_its_own_block_alone(void **state) {
    (void)state;
    start("futhark", "");
    release(alloc(A, 10 * MIB));
    alloc(B, 10 * MIB);
    assert_int_equal(hits(), 0);
    alloc(A, 10 * MIB);
    assert_int_equal(hits(), 1);
}

static void futhark_reuses_what_is_at_most_twice_as_large(void **state) {
    (void)state;
    start("futhark", "POOLCUDA_MAX_WASTE=100%");
    release(alloc(A, 10 * MIB));
    CUdeviceptr half = alloc(A, 5 * MIB);
    assert_int_equal(hits(), 1);
    release(half);
    alloc(A, 4 * MIB); /* 10 > 2 x 4 */
    assert_int_equal(hits(), 1);
    assert_int_equal(stats_get(STATS_driver_frees), 1); /* the misfit */
    assert_int_equal(stats_get(STATS_idle_bytes), 0);
}

static void futhark_keeps_one_block_of_a_tag(void **state) {
    (void)state;
    start("futhark", "");
    CUdeviceptr one = alloc(A, 6 * MIB), other = alloc(A, 8 * MIB);
    release(one);
    release(other);
    assert_int_equal(idle().blocks, 1);
    assert_int_equal(idle().bytes, 8 * MIB);
}

/* --- pyopencl --- */

static void pyopencl_has_sixteen_bins_in_an_octave(void **state) {
    (void)state;
    start("pyopencl", "");
    int bins = 0;
    size_t last = 0;
    for (size_t bytes = MIB; bytes < 2 * MIB; bytes += 1024 - 1) {
        size_t size = pool->keeper->round(bytes);
        assert_true(size > bytes && size - bytes <= MIB / 16);
        bins += size != last;
        last = size;
    }
    assert_int_equal(bins, 16);
}

static void pyopencl_takes_a_bins_lower_end_into_it(void **state) {
    (void)state;
    start("pyopencl", "");
    release(alloc(A, 8 * MIB));
    alloc(A, 8 * MIB + 100); /* from 8 to 8.5 MiB is one bin */
    assert_int_equal(hits(), 1);
    release(alloc(B, 16 * MIB - 1));
    alloc(B, 16 * MIB); /* the next one */
    assert_int_equal(hits(), 1);
}

static void pyopencl_gives_nothing_up_before_the_device_runs_out(void **state) {
    (void)state;
    CUdeviceptr blocks[3];
    start("pyopencl", "");
    for (size_t i = 0; i < 3; i++)
        blocks[i] = alloc(A, (100 - 30 * i) * MIB); /* 100, 70 and 40 of 256 */
    for (size_t i = 0; i < 3; i++)
        release(blocks[i]);
    assert_int_equal(stats_get(STATS_driver_frees), 0);
    alloc(A, 60 * MIB);
    assert_int_equal(stats_get(STATS_driver_frees),
                     1); /* the largest, and no more than was needed */
    assert_int_equal(idle().blocks, 2);
    assert_true(idle().largest < 80 * MIB);
}

static void pyopencl_gives_up_no_more_than_the_device_lacks(void **state) {
    (void)state;
    CUdeviceptr blocks[2];
    start("pyopencl", "POOLCUDA_THROTTLE_RATIO=0");
    alloc(A, 200 * MIB); /* a block of 208 of 256 MiB */
    for (size_t i = 0; i < 2; i++)
        blocks[i] = alloc(A, 19 * MIB); /* blocks of 20: 8 MiB are left */
    for (size_t i = 0; i < 2; i++)
        release(blocks[i]);
    alloc(A, 22 * MIB); /* a block of 23 */
    assert_int_equal(stats_get(STATS_driver_frees), 1);
    assert_int_equal(idle().blocks, 1);
}

static void pyopencl_counts_in_pages_what_a_full_device_is_given_back(void **state) {
    (void)state;
    CUdeviceptr blocks[5];
    start("pyopencl", "POOLCUDA_THROTTLE_RATIO=0 POOLCUDA_MAX_WASTE=100%");
    alloc(A, 160 * MIB - 1);
    alloc(A, 2 * MIB - 1);
    for (size_t i = 0; i < 5; i++)
        blocks[i] = alloc(A, 16 * MIB); /* blocks of 17, which take 18 of the driver */
    CUdeviceptr small = alloc(A, MIB - 1);
    for (size_t i = 0; i < 5; i++)
        release(blocks[i]);
    release(small);
    alloc(A, 84 * MIB); /* a block of 88: 86 are lacking, which five times 18 are, and 17 are not */
    assert_int_equal(stats_get(STATS_driver_frees), 5);
    assert_int_equal(idle().blocks, 1);
}

static void pyopencl_counts_in_pages_what_is_given_back_for_launches(void **state) {
    (void)state;
    start("pyopencl", "");
    alloc(A, 208 * MIB - 1);
    CUdeviceptr large = alloc(A, 10 * MIB), small = alloc(A, MIB - 1); /* 10.5 MiB take 12 */
    release(large);
    release(small);
    alloc(A, 32 * MIB - 1); /* leaves 2: a twentieth of the device is 10.8 more */
    assert_int_equal(stats_get(STATS_headroom_released_blocks), 1);
    assert_int_equal(idle().blocks, 1);
}

/* Half a percent of 256 MiB. */
static void pyopencl_rounds_to_pages_once_live_blocks_waste_more_than_the_bound(void **state) {
    (void)state;
    start("pyopencl", "");
    alloc(A, 16 * MIB); /* a block of 17 */
    alloc(A, 16 * MIB); /* another one: they waste 2 MiB */
    CUdeviceptr exact = alloc(A, 16 * MIB);
    assert_int_equal(stats_get(STATS_held_bytes), (17 + 17 + 16) * MIB);
    release(exact);
    assert_int_equal(alloc(B, 16 * MIB), exact); /* for its like */
    assert_int_equal(hits(), 1);
    alloc(A, 15 * MIB - 100 * 1024); /* a block of 15, which takes no more pages than it */
    assert_int_equal(stats_get(STATS_held_bytes), (17 + 17 + 16 + 15) * MIB);
}

static void pyopencl_serves_first_what_was_freed_last(void **state) {
    (void)state;
    start("pyopencl", "");
    CUdeviceptr one = alloc(A, MIB), other = alloc(B, MIB);
    release(one);
    release(other);
    assert_int_equal(alloc(C, MIB), other);
}

/* --- bfc --- */

static void bfc_has_bins_from_256_bytes_to_512_mib(void **state) {
    (void)state;
    start("bfc", "");
    assert_int_equal(REGION_BINS, 21);
    assert_int_equal((size_t)REGION_SMALLEST_BIN << REGION_BINS,
                     512 * MIB); /* the last one's end */
}

static void bfc_asks_for_regions_that_double(void **state) {
    (void)state;
    start("bfc", "");
    size_t held = 0;
    for (size_t wanted = 2 * MIB; wanted <= 32 * MIB; wanted *= 2) {
        while (stats_get(STATS_held_bytes) == held)
            alloc(A, MIB / 2);
        assert_int_equal(stats_get(STATS_held_bytes) - held, wanted);
        held = stats_get(STATS_held_bytes);
    }
}

static void bfc_takes_the_devices_last_pages_whole(void **state) {
    (void)state;
    start("bfc", "");
    alloc(A, 254 * MIB);
    alloc(B, MIB / 2);
    assert_int_equal(stats_get(STATS_held_bytes), 256 * MIB);
    for (int i = 0; i < 3; i++)
        alloc(B, MIB / 2);
    assert_int_equal(stats_get(STATS_driver_allocs), 2);
}

static void bfc_takes_no_page_whole_where_nothing_may_be_idle(void **state) {
    (void)state;
    start("bfc", "POOLCUDA_MAX_IDLE=1M");
    alloc(A, MIB / 2);
    assert_int_equal(stats_get(STATS_held_bytes), MIB / 2);
}

static void bfc_splits_blocks_and_merges_neighbours_at_once(void **state) {
    (void)state;
    CUdeviceptr parts[4];
    start("bfc", "");
    release(alloc(A, 16 * MIB));
    assert_int_equal(idle().blocks, 1);
    for (int i = 0; i < 4; i++)
        parts[i] = alloc(A, 4 * MIB);
    assert_int_equal(stats_get(STATS_driver_allocs), 1);
    release(parts[0]);
    release(parts[2]);
    assert_int_equal(idle().blocks, 2);
    release(parts[1]);
    assert_int_equal(idle().blocks, 1);
    assert_int_equal(idle().largest, 12 * MIB);
    release(parts[3]);
    assert_int_equal(idle().largest, 16 * MIB);
}

static void bfc_fits_best(void **state) {
    (void)state;
    start("bfc", "");
    CUdeviceptr large = alloc(A, 24 * MIB), apart = alloc(A, MIB), small = alloc(A, 6 * MIB);
    CUdeviceptr last = alloc(A, MIB);
    release(large);
    release(small);
    assert_int_equal(alloc(B, 5 * MIB), small);
    release(apart);
    release(last);
}

static void bfc_gives_idle_regions_up_before_an_allocation_fails(void **state) {
    (void)state;
    start("bfc", "");
    release(alloc(A, 120 * MIB));
    release(alloc(A, 100 * MIB));
    alloc(B, 200 * MIB);
    assert_true(stats_get(STATS_driver_frees) > 0);
}

/* The device has 256 MiB. */
static void bfc_cuts_to_fit_once_the_next_two_regions_would_find_no_room(void **state) {
    (void)state;
    start("bfc", "");
    CUdeviceptr block = alloc(A, 5 * MIB / 4);
    assert_int_equal(idle().bytes, 0);
    alloc(A,
          40 * MIB); /* in a region of 64 MiB: after others of 64 and 128 nothing would be left */
    assert_int_equal(idle().bytes, 24 * MIB);
    release(block);
    assert_int_equal(alloc(B, 5 * MIB / 4), block);
    assert_int_equal(idle().bytes, (24 * MIB) + (3 * MIB / 4));
}

static void bfc_gives_no_region_up_for_what_it_does_not_suffice_for(void **state) {
    (void)state;
    struct call_site site = {.frames = {C}, .depth = 1};
    CUdeviceptr pointer;
    start("bfc", "POOLCUDA_THROTTLE_RATIO=0");
    alloc(A, 58 * MIB);
    alloc(A, 6 * MIB); /* which fills the region */
    CUdeviceptr whole = alloc(A, 58 * MIB);
    alloc(A, 58 * MIB); /* of 118, which leaves 10 */
    release(whole);
    assert_int_equal(idle().bytes, (64 + 60) * MIB);
    assert_int_equal(pool_malloc(pool, &pointer, 100 * MIB, &site), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stats_get(STATS_driver_frees), 0);
    alloc(A, 70 * MIB);
    assert_int_equal(stats_get(STATS_driver_frees), 1);
}

/* A region that is no number of pages, as the driver makes one for its first pitch, lies in such
 * all the same. */
static void bfc_counts_the_pages_of_idle_regions_as_free(void **state) {
    (void)state;
    struct call_site site = {.frames = {C}, .depth = 1};
    CUdeviceptr third;
    size_t available, total, pitch;
    start("bfc", "");
    CUdeviceptr first = alloc(A, 200 * MIB), second = alloc(B, 47 * MIB);
    assert_int_equal(stats_get(STATS_held_bytes), 248 * MIB); /* 8 of 256 MiB are left */
    assert_int_equal(pool_malloc_pitch(pool, &third, &pitch, 500, 6145, 4, &site), CUDA_SUCCESS);
    assert_int_equal(stats_get(STATS_held_bytes), (248 + 3) * MIB + 512);
    release(third);
    release(first);
    release(second);
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    assert_int_equal(available, total);
}

/* The driver chooses the first pitch, and so makes that block itself: a small region of its own. */
static void bfc_counts_a_page_as_free_once_none_of_its_small_regions_is_live(void **state) {
    (void)state;
    struct call_site site = {.frames = {A}, .depth = 1};
    CUdeviceptr small[3];
    size_t available, total, pitch;
    start("bfc", "");
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pool_malloc_pitch(pool, &small[i], &pitch, 1000 + 512 * i, 30, 4, &site),
                         CUDA_SUCCESS);
    assert_int_equal(cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    assert_int_equal(available, total - 2 * MIB);
    release(small[0]);
    release(small[2]);
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    assert_true(available < total - MIB);
    release(small[1]);
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    assert_int_equal(available, total);
}

/* --- pytorch --- */

/* What a first request of that size makes the pool hold. */
static size_t held_for(size_t bytes) {
    size_t before = stats_get(STATS_held_bytes);
    uint64_t asked = stats_get(STATS_driver_allocs);
    alloc(A, bytes);
    assert_int_equal(stats_get(STATS_driver_allocs), asked + 1);
    return stats_get(STATS_held_bytes) - before;
}

static void pytorch_has_segments_of_2_mib_of_20_mib_and_of_whole_2_mib(void **state) {
    (void)state;
    start("pytorch", "");
    assert_int_equal(held_for(1), 2 * MIB);
    alloc(A, MIB); /* of those */
    assert_int_equal(held_for(MIB), 2 * MIB);
    assert_int_equal(held_for(10 * MIB - 512), 20 * MIB);
    alloc(A, MIB + 1); /* of those */
    assert_int_equal(held_for(10 * MIB - 512), 20 * MIB);
    assert_int_equal(held_for(11 * MIB - 1), 12 * MIB);
    assert_int_equal(held_for(14 * MIB), 14 * MIB);
    assert_int_equal(stats_get(STATS_driver_allocs), 6);
}

static void pytorch_keeps_small_and_large_requests_apart(void **state) {
    (void)state;
    start("pytorch", "");
    release(alloc(A, 4 * MIB));
    assert_int_equal(held_for(MIB / 2), 2 * MIB); /* 20 MiB lie idle */
    assert_int_equal(hits(), 0);
    alloc(A, 4 * MIB);
    assert_int_equal(hits(), 1);
    alloc(A, MIB);
    assert_int_equal(hits(), 2); /* of the small segment, of which 1.5 MiB are idle */
}

static void
pytorch_cuts_blocks_of_small_segments_to_fit_and_of_large_ones_from_1_mib(void **state) {
    (void)state;
    start("pytorch", "");
    CUdeviceptr small = alloc(A, 512), next = alloc(A, 512);
    assert_int_equal(next, small + 512);
    CUdeviceptr large = alloc(A, 20 * MIB);
    release(large);
    assert_int_equal(alloc(A, 19 * MIB), large);
    assert_int_equal(stats_get(STATS_waste_bytes), MIB); /* that is not more than 1 MiB */
    release(large);
    assert_int_equal(alloc(A, 19 * MIB - 512), large);
    assert_int_equal(stats_get(STATS_waste_bytes), 0);
    assert_int_equal(alloc(A, MIB + 512), large + 19 * MIB - 512);
}

static void pytorch_cuts_as_well_what_would_waste_more_than_the_bound(void **state) {
    (void)state;
    start("pytorch", "POOLCUDA_MAX_WASTE=1M");
    CUdeviceptr one = alloc(A, 20 * MIB), other = alloc(A, 20 * MIB);
    release(one);
    release(other);
    alloc(A, 19 * MIB);
    assert_int_equal(stats_get(STATS_waste_bytes), MIB);
    alloc(A, 20 * MIB - 512);
    assert_int_equal(stats_get(STATS_waste_bytes), MIB);
    assert_int_equal(stats_get(STATS_driver_allocs), 2);
}

static void pytorch_fits_best_and_takes_the_first_of_equals(void **state) {
    (void)state;
    CUdeviceptr blocks[4];
    start("pytorch", "");
    for (int i = 0; i < 4; i++)
        blocks[i] = alloc(A, 4 * MIB); /* of one segment */
    CUdeviceptr rest = alloc(A, 4 * MIB);
    release(blocks[2]);
    release(blocks[0]);
    assert_int_equal(alloc(B, 4 * MIB), blocks[0]);
    assert_int_equal(alloc(B, 3 * MIB + 1), blocks[2]);
    release(rest);
}

static void pytorch_gives_idle_segments_up_before_it_asks_for_less(void **state) {
    (void)state;
    start("pytorch", "POOLCUDA_THROTTLE_RATIO=1");
    release(alloc(A, MIB));
    alloc(B, 236 * MIB); /* 18 of 256 MiB are left */
    assert_int_equal(stats_get(STATS_driver_frees), 0);
    assert_int_equal(idle().bytes, 2 * MIB);
    alloc(C, 2 * MIB);
    assert_int_equal(stats_get(STATS_driver_frees), 1);
    assert_int_equal(stats_get(STATS_held_bytes), (236 + 20) * MIB);
    assert_int_equal(stats_get(STATS_oom_events), 0);
}

static void pytorch_has_no_request_fail_that_the_device_could_serve(void **state) {
    (void)state;
    start("pytorch", "");
    alloc(A, 252 * MIB);
    assert_int_equal(held_for(2 * MIB), 2 * MIB); /* 4 of 256 MiB were left */
    assert_int_equal(held_for(MIB + MIB / 2), MIB + MIB / 2);
    assert_int_equal(stats_get(STATS_oom_events), 0);
}

static void pytorch_serves_from_segments_of_the_other_kind_before_a_request_fails(void **state) {
    (void)state;
    start("pytorch", "");
    CUdeviceptr one = alloc(A, 9 * MIB), other = alloc(A, 9 * MIB);
    alloc(A, 236 * MIB); /* all of the device */
    release(one);
    alloc(B, 1000);
    assert_int_equal(stats_get(STATS_oom_rescued), 1);
    assert_int_equal(stats_get(STATS_driver_frees), 0);
    release(other);
}

/* The driver knows no such size, and says that there is no memory. Nothing idle is given up for it.
 */
static void pytorch_answers_a_size_that_no_device_has_as_the_driver_does(void **state) {
    (void)state;
    struct call_site site = {.frames = {A}, .depth = 1};
    CUdeviceptr pointer, live, idle_one;
    start("pytorch", "");
    live = alloc(A, 20 * MIB);
    idle_one = alloc(A, 20 * MIB);
    release(idle_one);
    for (size_t bytes = SIZE_MAX - 3 * MIB; bytes > SIZE_MAX / 2; bytes += MIB / 8) {
        CUresult answer = cuMemAlloc_v2(&pointer, bytes);
        assert_int_equal(pool_malloc(pool, &pointer, bytes, &site), answer);
    }
    assert_int_equal(stats_get(STATS_driver_frees), 0);
    release(live);
}

/* --- paddle --- */

static void spin(void *data) {
    while (!__atomic_load_n((int *)data, __ATOMIC_ACQUIRE))
        ;
}

static void paddle_counts_what_was_freed_in_other_contexts_too(void **state) {
    (void)state;
    enum { BLOCKS = 20 };
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    CUcontext first, other;
    CUdeviceptr blocks[BLOCKS];
    size_t available, total;
    start("paddle", "POOLCUDA_MAX_IDLE=4M");
    assert_int_equal(cuCtxGetCurrent(&first), CUDA_SUCCESS);
    alloc(A, MIB);
    assert_int_equal(create(&other, 0, 0), CUDA_SUCCESS);
    pool_context_created(pool, other);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = alloc(A, (i * 7 % 11 + 1) * MIB / 4);
    for (size_t i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    assert_int_equal(cuCtxSetCurrent(first), CUDA_SUCCESS);
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    assert_int_equal(available, total - MIB);
    alloc(A, available - MIB);
    pool_end_begins(pool);
    pool_context_ending(pool, other);
    assert_int_equal(cuCtxDestroy_v2(other), CUDA_SUCCESS);
    pool_end_is_over(pool, true);
}

static void paddle_waits_for_pending_frees_once_they_crowd_the_device(void **state) {
    (void)state;
    start("paddle", "");
    alloc(B, 1000); /* with no live block left a free waits at once */
    CUdeviceptr first = alloc(A, 90 * MIB);
    assert_int_equal(cuMemsetD8Async(first, 1, 90 * MIB, NULL), CUDA_SUCCESS);
    release(first); /* its wait is owed */
    assert_int_equal(stats_get(STATS_throttled), 0);
    CUdeviceptr second = alloc(A, 90 * MIB); /* at most 180 of 256: no crowd */
    assert_int_equal(stats_get(STATS_throttled), 0);
    assert_int_equal(cuMemsetD8Async(second, 1, 90 * MIB, NULL), CUDA_SUCCESS);
    release(second);
    assert_true(wait_is_owed());
    alloc(A, 120 * MIB); /* with the 90 that are held: more than 0.8 x 256 */
    assert_int_equal(stats_get(STATS_throttled), 1);
    assert_false(wait_is_owed());
}

/* --- vmm --- */

static void vmm_stitches_idle_pages_of_several_blocks(void **state) {
    (void)state;
    start("vmm", "POOLCUDA_MAX_IDLE=100%");
    CUdeviceptr one = alloc(A, 40 * MIB), between = alloc(B, 40 * MIB), other = alloc(A, 40 * MIB);
    release(one);
    release(other);
    uint64_t asked = stats_get(STATS_driver_allocs), held = stats_get(STATS_held_bytes);
    CUdeviceptr both = alloc(C, 80 * MIB);
    assert_int_equal(cuMemsetD8_v2(both, 7, 80 * MIB), CUDA_SUCCESS);
    assert_int_equal(stats_get(STATS_driver_allocs), asked);
    assert_int_equal(stats_get(STATS_held_bytes), held);
    assert_int_equal(stats_get(STATS_malloc_stitched), 1);
    release(between);
}

static void vmm_takes_no_more_pages_than_a_request_needs(void **state) {
    (void)state;
    start("vmm", "POOLCUDA_MAX_IDLE=100%");
    release(alloc(A, 64 * MIB));
    uint64_t asked = stats_get(STATS_driver_allocs), mapped = stats_get(STATS_map_calls);
    alloc(A, 32 * MIB);
    alloc(B, 32 * MIB);
    assert_int_equal(stats_get(STATS_driver_allocs), asked);
    assert_int_equal(stats_get(STATS_map_calls), mapped);
    assert_int_equal(stats_get(STATS_waste_bytes), 0);
}

/* Each of these leaves a piece that none of the next fits in, and that live blocks on both sides
 * keep from the driver. */
static void vmm_asks_for_chunks_not_for_blocks_whatever_is_stranded(void **state) {
    (void)state;
    enum { BLOCKS = 115 };
    CUdeviceptr blocks[BLOCKS];
    start("vmm", "");
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = alloc(A, MIB + MIB / 10);
    uint64_t asked = stats_get(STATS_driver_allocs);
    for (int i = 0; i < BLOCKS; i += 5) {
        release(blocks[i]);
        blocks[i] = alloc(A, MIB + MIB / 8);
    }
    assert_true(stats_get(STATS_driver_allocs) <= asked + BLOCKS / 5 / 3);
    assert_int_equal(stats_get(STATS_driver_frees), 0);
}

/* It can grow: cut first, it would be missing to a larger request. */
static void vmm_cuts_the_idle_block_at_the_end_last(void **state) {
    (void)state;
    start("vmm", "");
    CUdeviceptr first = alloc(A, MIB + MIB / 4), last = alloc(A, MIB / 2); /* of 2 MiB */
    release(first);
    assert_int_equal(alloc(B, MIB / 4), first);
    assert_int_equal(alloc(B, MIB), first + MIB / 4);
    assert_int_equal(alloc(B, MIB / 4), last + MIB / 2);
    assert_int_equal(stats_get(STATS_held_bytes), 2 * MIB);
}

static void vmm_lets_small_blocks_share_a_page(void **state) {
    (void)state;
    start("vmm", "");
    CUdeviceptr one = alloc(A, 1000), other = alloc(B, 1000);
    assert_int_equal(one / (2 * MIB), other / (2 * MIB));
}

static void vmm_unmaps_only_after_the_work_that_used_a_block(void **state) {
    (void)state;
    static int go;
    start("vmm", "POOLCUDA_FREE=defer");
    CUdeviceptr one = alloc(A, 30 * MIB), between = alloc(B, 30 * MIB), other = alloc(A, 30 * MIB);
    assert_int_equal(cuLaunchHostFunc(NULL, spin, &go), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async(one, 2, 30 * MIB, NULL), CUDA_SUCCESS);
    uint64_t mapped = stats_get(STATS_map_calls);
    release(one);
    release(other);
    assert_int_equal(stats_get(STATS_map_calls), mapped);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    alloc(C, 60 * MIB); /* its fence comes after the memset, or the driver finds a hazard */
    release(between);
}

/* Its attempts are no room that another thread has made. */
static void vmm_fails_for_good_when_too_few_chunks_are_left(void **state) {
    (void)state;
    CUdeviceptr pointer;
    struct call_site site = {.frames = {B}, .depth = 1};
    start("vmm", "");
    CUdeviceptr live = alloc(A, 200 * MIB);
    uint64_t asked = stats_get(STATS_driver_allocs), freed = stats_get(STATS_driver_frees);
    assert_int_equal(pool_malloc(pool, &pointer, 50 * MIB, &site), CUDA_SUCCESS);
    assert_int_equal(pool_free(pool, pointer), CUDA_SUCCESS);
    assert_int_equal(pool_malloc(pool, &pointer, 70 * MIB, &site), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(stats_get(STATS_driver_frees) > freed);
    assert_true(stats_get(STATS_driver_allocs) - asked < 100);
    assert_true(pool_is_valid(pool));
    alloc(B, 50 * MIB);
    release(live);
}

static CUdeviceptr registered; /* freed while memory is mapped for a request */
static CUresult (*map_itself)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
                              unsigned long long);

static CUresult map_after_free(CUdeviceptr address, size_t bytes, size_t offset,
                               CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUdeviceptr pointer = registered;
    registered = 0;
    if (pointer) {
        pool_taint(pool, pointer, POOL_TAINT_SYNC_MEMOPS);
        release(pointer);
    }
    return map_itself(address, bytes, offset, handle, flags);
}

/* Another thread frees what the driver keeps state in for others: it lies in the chunk in which a
 * request is to begin, which serves no request from then on. */
static void vmm_knows_its_blocks_when_a_chunk_is_barred_as_it_grows(void **state) {
    (void)state;
    start("vmm", "");
    CUdeviceptr live = alloc(A, MIB / 2), pointer;
    registered = alloc(A, MIB / 2); /* and 1 MiB is idle at the end */
    assert_int_equal(stats_get(STATS_held_bytes), 2 * MIB);
    map_itself = driver.mem_map;
    driver.mem_map = map_after_free;
    pointer = alloc(B, 5 * MIB);
    assert_int_equal(registered, 0);
    assert_int_equal(pool_find_place(pool, pointer + 5 * MIB - 1).base, pointer);
    assert_int_equal(cuMemsetD8_v2(pointer, 1, 5 * MIB), CUDA_SUCCESS);
    release(pointer);
    release(live);
    release(alloc(B, 5 * MIB));
}

/* A thread that asks again and again for so many bytes, and how often it was served. */
struct asking {
    size_t bytes;
    CUcontext context;
    int served;
};
enum { ROUNDS = 40 };

static void *ask(void *argument) {
    struct asking *asking = argument;
    struct call_site site = {.frames = {asking->bytes}, .depth = 1};
    CUdeviceptr pointer;
    cuCtxSetCurrent(asking->context);
    for (int i = 0; i < ROUNDS; i++)
        if (pool_malloc(pool, &pointer, asking->bytes, &site) == CUDA_SUCCESS)
            asking->served += pool_free(pool, pointer) == CUDA_SUCCESS;
    return NULL;
}

/* Each thread's attempt takes for a moment what the others lack. */
static void vmm_serves_whoever_finds_enough_beside_threads_that_find_too_little(void **state) {
    (void)state;
    struct asking threads[] = {
        {.bytes = 70 * MIB}, {.bytes = 80 * MIB}, {.bytes = 30 * MIB}, {.bytes = 90 * MIB}};
    enum { THREADS = sizeof threads / sizeof *threads };
    pthread_t handles[THREADS];
    start("vmm", "");
    CUdeviceptr live = alloc(A, 200 * MIB);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(cuCtxGetCurrent(&threads[i].context), CUDA_SUCCESS);
        assert_int_equal(pthread_create(&handles[i], NULL, ask, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(handles[i], NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(threads[i].served, threads[i].bytes == 30 * MIB ? ROUNDS : 0);
    assert_true(pool_is_valid(pool));
    alloc(B, 50 * MIB);
    release(live);
}

#define TEST(name) cmocka_unit_test_teardown(name, stop)

/* --- pytorch-expandable --- */

static void expandable_maps_first_where_idle_pages_were_unmapped(void **state) {
    (void)state;
    start("pytorch-expandable", "");
    CUdeviceptr first = alloc(A, 40 * MIB);
    alloc(A, 40 * MIB);
    release(first);
    assert_int_equal(pool_release(pool, 0, 40 * MIB), 40 * MIB);
    assert_int_equal(alloc(B, 40 * MIB), first);
}

/* The range has 320 MiB for a device of 256. */
static void expandable_begins_in_the_idle_end_of_a_range_that_has_room_for_the_rest(void **state) {
    (void)state;
    start("pytorch-expandable", "POOLCUDA_THROTTLE_RATIO=0");
    CUdeviceptr first = alloc(A, 200 * MIB);
    uint64_t calls = stats_get(STATS_map_calls);
    release(first);
    assert_int_equal(alloc(B, 240 * MIB), first);
    assert_true(stats_get(STATS_map_calls) - calls <= 2 * 2); /* for two pages, each two at most */
}

static CUdeviceptr behind; /* 0: it could not be allocated */

static CUresult map_beside_another(CUdeviceptr address, size_t bytes, size_t offset,
                                   CUmemGenericAllocationHandle handle, unsigned long long flags) {
    struct call_site site = {.frames = {B}, .depth = 1};
    driver.mem_map = map_itself;
    if (pool_malloc(pool, &behind, 26 * MIB, &site) != CUDA_SUCCESS)
        behind = 0;
    return map_itself(address, bytes, offset, handle, flags);
}

static CUresult allocate_nothing(CUdeviceptr *pointer, size_t bytes) {
    (void)pointer;
    (void)bytes;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The first request begins in 5 MiB, which are no whole pages, and lacks 21. */
static void expandable_maps_whole_pages_behind_what_another_thread_is_about_to_map(void **state) {
    (void)state;
    start("pytorch-expandable", "");
    alloc(A, 15 * MIB);
    map_itself = driver.mem_map;
    driver.mem_map = map_beside_another;
    driver.mem_alloc = allocate_nothing;
    CUdeviceptr pointer = alloc(A, 26 * MIB);
    assert_true(behind > pointer);
    release(pointer);
    release(behind);
}

static CUresult be_cancelled(CUdeviceptr address, size_t bytes, size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags) {
    (void)address, (void)bytes, (void)offset, (void)handle, (void)flags;
    driver.mem_map = map_itself;
    pthread_exit(NULL);
}

static void *ask_and_be_cancelled(void *context) {
    struct call_site site = {.frames = {B}, .depth = 1};
    CUdeviceptr pointer;
    cuCtxSetCurrent(context);
    map_itself = driver.mem_map;
    driver.mem_map = be_cancelled;
    pool_malloc(pool, &pointer, 30 * MIB, &site);
    return context;
}

/* Its stack is gone afterwards, and with it all that it had there. */
static void cancel_a_thread_that_maps(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    CUcontext context;
    void *stack =
        mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    assert_ptr_not_equal(stack, MAP_FAILED);
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, MIB), 0);
    assert_int_equal(pthread_create(&thread, &attributes, ask_and_be_cancelled, context), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    munmap(stack, MIB);
}

static void a_thread_that_is_cancelled_as_it_maps_leaves_nothing_of_its_stack(void **state) {
    (void)state;
    static const char *const names[] = {"vmm", "pytorch-expandable"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (i)
            assert_int_equal(stop(NULL), 0);
        start(names[i], "");
        CUdeviceptr first = alloc(A, 20 * MIB);
        cancel_a_thread_that_maps();
        alloc(A, 40 * MIB);
        release(first);
        alloc(A, 60 * MIB);
        struct device *device = TAILQ_FIRST(&pool->devices);
        device->releasing = device->attempting = 0;
        LIST_FIRST(&pool->contexts)->users = 0; /* the context's end would wait for it */
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(futhark_serves_a_tag_from_its_own_block_alone),
        TEST(futhark_reuses_what_is_at_most_twice_as_large),
        TEST(futhark_keeps_one_block_of_a_tag),
        TEST(pyopencl_has_sixteen_bins_in_an_octave),
        TEST(pyopencl_takes_a_bins_lower_end_into_it),
        TEST(pyopencl_gives_nothing_up_before_the_device_runs_out),
        TEST(pyopencl_gives_up_no_more_than_the_device_lacks),
        TEST(pyopencl_counts_in_pages_what_a_full_device_is_given_back),
        TEST(pyopencl_counts_in_pages_what_is_given_back_for_launches),
        TEST(pyopencl_rounds_to_pages_once_live_blocks_waste_more_than_the_bound),
        TEST(pyopencl_serves_first_what_was_freed_last),
        TEST(bfc_has_bins_from_256_bytes_to_512_mib),
        TEST(bfc_asks_for_regions_that_double),
        TEST(bfc_takes_the_devices_last_pages_whole),
        TEST(bfc_takes_no_page_whole_where_nothing_may_be_idle),
        TEST(bfc_splits_blocks_and_merges_neighbours_at_once),
        TEST(bfc_fits_best),
        TEST(bfc_gives_idle_regions_up_before_an_allocation_fails),
        TEST(bfc_cuts_to_fit_once_the_next_two_regions_would_find_no_room),
        TEST(bfc_gives_no_region_up_for_what_it_does_not_suffice_for),
        TEST(bfc_counts_the_pages_of_idle_regions_as_free),
        TEST(bfc_counts_a_page_as_free_once_none_of_its_small_regions_is_live),
        TEST(pytorch_has_segments_of_2_mib_of_20_mib_and_of_whole_2_mib),
        TEST(pytorch_keeps_small_and_large_requests_apart),
        TEST(pytorch_cuts_blocks_of_small_segments_to_fit_and_of_large_ones_from_1_mib),
        TEST(pytorch_cuts_as_well_what_would_waste_more_than_the_bound),
        TEST(pytorch_fits_best_and_takes_the_first_of_equals),
        TEST(pytorch_gives_idle_segments_up_before_it_asks_for_less),
        TEST(pytorch_has_no_request_fail_that_the_device_could_serve),
        TEST(pytorch_serves_from_segments_of_the_other_kind_before_a_request_fails),
        TEST(pytorch_answers_a_size_that_no_device_has_as_the_driver_does),
        TEST(paddle_counts_what_was_freed_in_other_contexts_too),
        TEST(paddle_waits_for_pending_frees_once_they_crowd_the_device),
        TEST(vmm_stitches_idle_pages_of_several_blocks),
        TEST(vmm_takes_no_more_pages_than_a_request_needs),
        TEST(vmm_asks_for_chunks_not_for_blocks_whatever_is_stranded),
        TEST(vmm_cuts_the_idle_block_at_the_end_last),
        TEST(vmm_lets_small_blocks_share_a_page),
        TEST(vmm_unmaps_only_after_the_work_that_used_a_block),
        TEST(vmm_fails_for_good_when_too_few_chunks_are_left),
        TEST(vmm_knows_its_blocks_when_a_chunk_is_barred_as_it_grows),
        TEST(vmm_serves_whoever_finds_enough_beside_threads_that_find_too_little),
        TEST(expandable_maps_first_where_idle_pages_were_unmapped),
        TEST(expandable_begins_in_the_idle_end_of_a_range_that_has_room_for_the_rest),
        TEST(expandable_maps_whole_pages_behind_what_another_thread_is_about_to_map),
        TEST(a_thread_that_is_cancelled_as_it_maps_leaves_nothing_of_its_stack),
    };
    uint64_t (*hazards)(void);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    *(void **)&hazards = dlsym(RTLD_DEFAULT, "simcuda_hazards");
    return failed || (hazards && hazards() > 0);
}
