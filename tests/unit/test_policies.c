/* The contract that every policy keeps, on the simulated GPU's driver: the same suite runs once for
 * each policy. Every step checks the pool's invariants; the driver's own figures and its hazard
 * detector are the witnesses. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "keep/region.h"
#include "options/options.h"
#include "pool/suballocation.h"
#include "whole_end.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static const struct policy *policy;
static struct driver driver;
static struct pool *pool;
static CUcontext context;
static size_t device_total;
static uint64_t now;

static uint64_t fake_clock(void) {
    return now;
}

static void *find_symbol(const char *name) {
    return dlsym(RTLD_DEFAULT, name);
}

static void start_with(struct pool_config config) {
    size_t available;
    config.policy = policy;
    for (int i = 0; i < STATS_COUNTERS; i++)
        stats_set((enum stats_counter)i, 0);
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_true(driver_fill(&driver, find_symbol));
    assert_int_equal(cuMemGetInfo_v2(&available, &device_total), CUDA_SUCCESS);
    assert_int_equal(available, device_total); /* nothing of the test before is left */
    pool = pool_create(&config, &driver);
    assert_non_null(pool);
}

static const struct pool_config defaults = {.reuse_ratio = 2, .steal = true};

static int start(void **state) {
    (void)state;
    start_with(defaults);
    return 0;
}

static int stop(void **state) {
    (void)state;
    CUresult ended = end_primary_for_good(pool);
    pool_destroy(pool);
    cuCtxSetCurrent(NULL);
    return ended != CUDA_SUCCESS || cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS;
}

static CUresult try_alloc(CUdeviceptr *pointer, size_t bytes, uintptr_t number) {
    struct call_site site = {.frames = {number}, .depth = 1};
    CUresult result = pool_malloc(pool, pointer, bytes, &site);
    assert_true(pool_is_valid(pool));
    return result;
}

static CUdeviceptr alloc(size_t bytes) {
    CUdeviceptr pointer = 0;
    assert_int_equal(try_alloc(&pointer, bytes, 1), CUDA_SUCCESS);
    return pointer;
}

static void release(CUdeviceptr pointer) {
    assert_int_equal(pool_free(pool, pointer), CUDA_SUCCESS);
    assert_true(pool_is_valid(pool));
}

static size_t driver_free_bytes(void) {
    size_t available, total;
    assert_int_equal(cuMemGetInfo_v2(&available, &total), CUDA_SUCCESS);
    return available;
}

static void the_same_request_is_served_again_without_the_driver(void **state) {
    (void)state;
    for (size_t bytes = 1; bytes <= 48 * MIB; bytes = bytes * 5 + 3) {
        release(alloc(bytes));
        uint64_t asked = stats_get(STATS_driver_allocs), hits = stats_get(STATS_malloc_hits);
        release(alloc(bytes));
        assert_int_equal(stats_get(STATS_driver_allocs), asked);
        assert_int_equal(stats_get(STATS_malloc_hits), hits + 1);
    }
}

static void expect_zeros(CUdeviceptr pointer, size_t bytes) {
    unsigned char *copy = malloc(bytes);
    assert_non_null(copy);
    assert_int_equal(cuMemcpyDtoH_v2(copy, pointer, bytes), CUDA_SUCCESS);
    assert_int_equal(copy[0], 0);
    assert_memory_equal(copy, copy + 1, bytes - 1); /* each byte is as the one before */
    free(copy);
}

/* Whole blocks, parts, joined ones, pages mapped anew with new ones among them. */
static void reused_memory_is_cleared_on_request(void **state) {
    (void)state;
    pool_set_config(pool, &(struct pool_config){.zero = true}, POOL_SET_zero);
    static const size_t sizes[] = {3, 6, 2, 8, 3};
    for (size_t i = 0; i + 1 < sizeof sizes / sizeof sizes[0]; i++) {
        size_t one_bytes = sizes[i] * MIB, other_bytes = sizes[i + 1] * MIB;
        CUdeviceptr one = alloc(one_bytes), other = alloc(other_bytes);
        expect_zeros(one, one_bytes);
        expect_zeros(other, other_bytes);
        assert_int_equal(cuMemsetD8_v2(one, 0xab, one_bytes), CUDA_SUCCESS);
        assert_int_equal(cuMemsetD8_v2(other, 0xcd, other_bytes), CUDA_SUCCESS);
        release(one);
        release(other);
    }
}

/* Every byte of every live block belongs to it alone. */
static void live_blocks_never_overlap(void **state) {
    enum { BLOCKS = 40, STEPS = 1500 };
    CUdeviceptr blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS];
    uint32_t random = 12345;
    (void)state;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        int i = (int)(random >> 8) % BLOCKS;
        unsigned char expected = (unsigned char)(i + 1), first, last;
        if (blocks[i]) {
            assert_int_equal(cuMemcpyDtoH_v2(&first, blocks[i], 1), CUDA_SUCCESS);
            assert_int_equal(cuMemcpyDtoH_v2(&last, blocks[i] + sizes[i] - 1, 1), CUDA_SUCCESS);
            assert_int_equal(first, expected);
            assert_int_equal(last, expected);
            release(blocks[i]);
            blocks[i] = 0;
            continue;
        }
        unsigned shift = (random >> 16) % 23;
        sizes[i] = ((size_t)1 << shift) + (random >> 4) % ((size_t)1 << shift);
        blocks[i] = alloc(sizes[i]);
        assert_int_equal(cuMemsetD8_v2(blocks[i], expected, sizes[i]), CUDA_SUCCESS);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i])
            release(blocks[i]);
}

/* bfc does not promise all of the device: docs/policies.md. */
static void idle_memory_never_makes_a_request_fail(void **state) {
    (void)state;
    size_t share = device_total / (policy->source == &source_regions ? 40 : 10);
    CUdeviceptr blocks[8];
    for (int i = 0; i < 8; i++)
        blocks[i] = alloc(share);
    for (int i = 0; i < 8; i++)
        release(blocks[i]);
    release(alloc(device_total / 10 * 9)); /* nothing is live: all of it can be had */
    for (int i = 0; i < 8; i++)
        blocks[i] = alloc(share);
    for (int i = 0; i < 8; i++)
        release(blocks[i]);
}

static void what_is_reported_free_counts_idle_memory(void **state) {
    (void)state;
    size_t available, total;
    release(alloc(device_total / 4));
    assert_int_equal(pool_mem_get_info(pool, &available, &total), CUDA_SUCCESS);
    assert_int_equal(available, device_total);
    assert_int_equal(total, device_total);
}

static void trimming_gives_everything_back(void **state) {
    (void)state;
    CUdeviceptr small = alloc(1000), large = alloc(20 * MIB), other = alloc(3 * MIB);
    release(large);
    release(small);
    release(other);
    pool_release(pool, 0, SIZE_MAX);
    assert_true(pool_is_valid(pool));
    assert_int_equal(driver_free_bytes(), device_total);
    assert_int_equal(stats_get(STATS_held_bytes), 0);
    release(alloc(20 * MIB)); /* and works on */
}

static void idle_memory_stays_within_its_limit(void **state) {
    (void)state;
    CUdeviceptr blocks[16];
    stop(NULL);
    struct pool_config limited = defaults;
    limited.max_idle = (struct limit){.kind = LIMIT_BYTES, .bytes = 16 * MIB};
    start_with(limited);
    for (int i = 0; i < 16; i++) {
        blocks[i] = alloc((size_t)(i + 1) * MIB);
        assert_true(stats_get(STATS_idle_bytes) <= 16 * MIB); /* nor is more asked for than that */
    }
    for (int i = 0; i < 16; i++)
        release(blocks[i]);
    assert_true(stats_get(STATS_idle_bytes) <= 16 * MIB);
}

static void memory_that_nobody_needed_for_a_while_is_given_up(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config decaying = defaults;
    decaying.idle_decay = 10;
    decaying.clock = fake_clock;
    now = 1000000000u;
    start_with(decaying);
    CUdeviceptr small = alloc(1024), large;
    assert_int_equal(try_alloc(&large, 64 * MIB, 2), CUDA_SUCCESS);
    release(large);
    release(small);
    for (int i = 0; i < 200; i++) {
        now += 1000000000u; /* 200 s in which 1 KiB is all that is needed */
        release(alloc(1024));
    }
    assert_true(stats_get(STATS_idle_bytes) < 64 * MIB);
    assert_true(policy->keeper->keeps_nothing || stats_get(STATS_decayed_blocks) > 0);
}

static void a_second_free_is_refused_and_unknown_pointers_are_the_drivers(void **state) {
    (void)state;
    CUdeviceptr pointer = alloc(3 * MIB), foreign;
    release(pointer);
    assert_int_equal(pool_free(pool, pointer), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAlloc_v2(&foreign, 5000), CUDA_SUCCESS);
    release(foreign);
    assert_int_equal(pool_free(pool, foreign), CUDA_ERROR_INVALID_VALUE);
}

/* In the device's next context. */
static void expect_nothing_left(void) {
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    if (policy->source == &source_driver_pool) { /* what outlived the other goes in this one */
        release(alloc(100));
        pool_release(pool, 0, SIZE_MAX);
    }
    assert_int_equal(driver_free_bytes(), device_total);
}

static void a_context_that_ends_leaves_nothing_behind(void **state) {
    (void)state;
    release(alloc(30 * MIB));
    alloc(7 * MIB); /* live when its context ends */
    alloc(100);
    assert_int_equal(end_primary_wholly(pool), CUDA_SUCCESS);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_held_bytes), 0);
    expect_nothing_left();
    release(alloc(30 * MIB));
}

/* The pool answers, as the driver knows all of a region or has rounded the size. */
static void expect_place(CUdeviceptr block, size_t bytes) {
    struct pool_place place = pool_find_place(pool, block + bytes - 1);
    assert_int_equal(place.state, POOL_POINTER_LIVE);
    assert_int_equal(place.base, block);
    assert_int_equal(place.requested, bytes);
    assert_int_equal(pool_pointer_state(pool, block, &bytes), POOL_POINTER_LIVE);
    assert_int_equal(bytes, place.requested);
}

/* Other threads may submit work until then. */
static void what_is_live_stays_until_the_driver_has_ended_its_context(void **state) {
    (void)state;
    CUdeviceptr first = alloc(5000), second = alloc(5000), large = alloc(9 * MIB);
    pool_end_begins(pool);
    pool_primary_ending(pool, 0);
    assert_int_equal(cuMemsetD8Async(second, 1, 5000, NULL), CUDA_SUCCESS);
    if (policy->keeper->cuts || policy->source == &source_driver_pool)
        expect_place(second, 5000);
    assert_int_equal(pool_free(pool, first), CUDA_SUCCESS); /* and not of the region both are in */
    assert_int_equal(pool_free(pool, first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8Async(second, 1, 5000, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemsetD8Async(large, 1, 9 * MIB, NULL), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    pool_end_is_over(pool, true);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_held_bytes), 0);
}

static void what_is_on_its_way_to_a_request_as_the_end_is_refused_can_be_freed(void **state) {
    (void)state;
    if (policy->source != &source_mapped) /* elsewhere it has no record yet */
        return;
    CUdeviceptr pointer = alloc(9 * MIB);
    pool_lock(pool);
    const struct obtained obtained = {.block = ledger_find(pool, pointer)};
    const struct request request = {.context = obtained.block->context};
    ledger_set_state(obtained.block, BLOCK_WAITING); /* as it has been mapped */
    pool_unlock(pool);
    pool_end_begins(pool);
    pool_primary_ending(pool, 0);
    pool_end_is_over(pool, false);
    pool_lock(pool);
    take_obtained(pool, &request, &obtained);
    pool_unlock(pool);
    assert_int_equal(pool_free(pool, pointer), CUDA_SUCCESS);
    assert_int_equal(pool_free(pool, pointer), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(TAILQ_FIRST(&pool->devices)->releasing, 0);
}

/* A driver may tell of the error that has lost the context, and end it all the same. */
static void what_a_lost_context_had_goes_whatever_its_end_is_answered(void **state) {
    (void)state;
    alloc(9 * MIB);
    LIST_FIRST(&pool->contexts)->broken = 1;
    pool_end_begins(pool);
    pool_primary_ending(pool, 0);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    pool_end_is_over(pool, false);
    expect_nothing_left();
}

/* Others may go on for ever, each beginning before the last has ended. */
static void an_end_waits_for_nobody_who_uses_other_contexts(void **state) {
    (void)state;
    release(alloc(9 * MIB));
    struct device *device = TAILQ_FIRST(&pool->devices);
    device->attempting++;
    device->releasing++;
    assert_int_equal(end_primary_wholly(pool), CUDA_SUCCESS);
    device->attempting--;
    device->releasing--;
    assert_true(pool_is_valid(pool));
}

static void nobody_begins_to_use_the_source_of_a_context_that_is_about_to_end(void **state) {
    (void)state;
    if (!policy->source->reuses) /* else there is nothing to use */
        return;
    release(alloc(9 * MIB));
    struct context *closing = LIST_FIRST(&pool->contexts);
    uint64_t calls = stats_get(STATS_map_calls);
    closing->closing = true;
    CUdeviceptr own = alloc(60 * MIB);
    assert_int_equal(closing->users, 0);
    assert_int_equal(stats_get(STATS_map_calls), calls);
    release(own);
    closing->closing = false;
    release(alloc(9 * MIB));
}

static void what_is_live_stays_if_the_driver_refuses_to_end_its_context(void **state) {
    (void)state;
    CUdeviceptr pointer = alloc(9 * MIB);
    pool_end_begins(pool);
    pool_primary_ending(pool, 0);
    pool_end_is_over(pool, false);
    release(alloc(20 * MIB));
    pool_release(pool, 0, SIZE_MAX);
    assert_int_equal(cuMemsetD8_v2(pointer, 1, 9 * MIB), CUDA_SUCCESS);
    assert_int_equal(pool_free(pool, pointer), CUDA_SUCCESS); /* which waits, as natively */
    assert_int_equal(cuStreamQuery(CU_STREAM_LEGACY), CUDA_SUCCESS);
    assert_true(pool_is_valid(pool));
    assert_int_equal(end_primary_for_good(pool), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(driver_free_bytes(), device_total);
}

static void deferred_blocks_are_served_once_their_work_is_over(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    for (int i = 0; i < 50; i++) {
        CUdeviceptr pointer = alloc(4 * MIB);
        assert_int_equal(cuMemsetD8Async(pointer, 1, 4 * MIB, NULL), CUDA_SUCCESS);
        release(pointer);
        cuCtxSynchronize();
    }
    assert_true(stats_get(STATS_malloc_hits) >= 48);
}

static void await_go(void *data) {
    while (!__atomic_load_n((int *)data, __ATOMIC_ACQUIRE))
        ;
}

static void only_fences_whose_blocks_can_serve_are_waited_for(void **state) {
    (void)state;
    static int go;
    CUdeviceptr pointer;
    if (!policy->keeper->own_site && !policy->keeper->same_size && !policy->keeper->keeps_nothing)
        return;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    CUdeviceptr freed = alloc(4 * MIB);
    __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
    assert_int_equal(cuLaunchHostFunc(NULL, await_go, &go), CUDA_SUCCESS);
    release(freed);
    alloc(100); /* records the fence, which will not pass */
    assert_int_equal(try_alloc(&pointer, 3 * MIB, 2), CUDA_SUCCESS); /* of another site and size */
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    assert_int_equal(stats_get(STATS_fences_waited), 0);
}

/* Small requests are not served by what large ones have freed, where these are kept apart. */
static void fences_of_blocks_that_are_kept_for_other_requests_are_not_waited_for(void **state) {
    (void)state;
    static int go;
    if (!policy->keeper->fits)
        return;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    CUdeviceptr freed = alloc(4 * MIB);
    __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
    assert_int_equal(cuLaunchHostFunc(NULL, await_go, &go), CUDA_SUCCESS);
    release(freed);
    for (int i = 0; i < 3; i++) /* the last of them needs a second region */
        alloc(MIB);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    assert_int_equal(stats_get(STATS_fences_waited), 0);
    assert_int_equal(stats_get(STATS_driver_allocs), 3);
}

static void the_usage_describes_the_idle_memory(void **state) {
    (void)state;
    release(alloc(40 * MIB));
    pool_lock(pool);
    struct idle_store *store = &LIST_FIRST(&pool->contexts)->store;
    const struct pool_block *largest = policy->keeper->largest(store);
    assert_true(store->bytes >= (largest ? largest->size : 0));
    assert_true(store->count == 0 || (largest && largest->size > 0));
    assert_true(store->bytes <= stats_get(STATS_idle_bytes));
    pool_unlock(pool);
}

/* Any request's address suits what wants the most of it: texture references want 512 bytes. */
static void addresses_are_aligned_as_the_drivers_are(void **state) {
    (void)state;
    CUdeviceptr blocks[16];
    for (int i = 0; i < 16; i++) {
        blocks[i] = alloc((size_t)i * 300 + 1);
        assert_int_equal(blocks[i] % 512, 0);
    }
    for (int i = 0; i < 16; i++)
        release(blocks[i]);
}

static void neighbours_that_are_freed_serve_a_larger_request_as_they_are(void **state) {
    (void)state;
    if (!policy->keeper->cuts)
        return;
    release(alloc(16 * MIB));
    CUdeviceptr one = alloc(8 * MIB), other = alloc(8 * MIB);
    release(one);
    release(other);
    uint64_t calls = stats_get(STATS_map_calls), asked = stats_get(STATS_driver_allocs);
    release(alloc(16 * MIB));
    assert_int_equal(stats_get(STATS_map_calls), calls);
    assert_int_equal(stats_get(STATS_driver_allocs), asked);
}

static void a_small_live_block_pins_no_more_than_its_chunk(void **state) {
    (void)state;
    if (policy->keeper != &keeper_mapped) /* whose chunks have other sizes */
        return;
    release(alloc(16 * MIB));
    CUdeviceptr first = alloc(2 * MIB), rest = alloc(14 * MIB);
    release(first);
    CUdeviceptr small = alloc(512);
    release(rest);
    pool_release(pool, 0, SIZE_MAX);
    assert_true(pool_is_valid(pool));
    assert_int_equal(driver_free_bytes(), device_total - device_total / 64);
    release(small);
    pool_release(pool, 0, SIZE_MAX);
    assert_int_equal(driver_free_bytes(), device_total);
}

static int reserved, most_reserved;

static CUresult count_reserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr at,
                              unsigned long long flags) {
    reserved++;
    most_reserved = reserved > most_reserved ? reserved : most_reserved;
    return cuMemAddressReserve(pointer, size, alignment, at, flags);
}

static CUresult count_address_free(CUdeviceptr pointer, size_t size) {
    reserved--;
    return cuMemAddressFree(pointer, size);
}

static void start_counting_reservations(void) {
    if (driver.mem_address_reserve != cuMemAddressReserve)
        return;
    reserved = most_reserved = 0;
    driver.mem_address_reserve = count_reserve;
    driver.mem_address_free = count_address_free;
}

/* A long-lived program, that now and then gives its idle memory back and keeps a few blocks. */
static void addresses_that_were_unmapped_are_mapped_again(void **state) {
    (void)state;
    enum { KEPT = 22, STEPS = 300 };
    CUdeviceptr kept[KEPT] = {0};
    unsigned char byte;
    if (policy->keeper != &keeper_mapped) /* whose chunks have other sizes */
        return;
    start_counting_reservations();
    for (int step = 0; step < STEPS; step++) {
        CUdeviceptr *mine = &kept[step % KEPT];
        if (*mine) {
            assert_int_equal(cuMemcpyDtoH_v2(&byte, *mine, 1), CUDA_SUCCESS);
            assert_int_equal(byte, step % KEPT);
            release(*mine);
        }
        CUdeviceptr large = alloc((size_t)(96 + step % 7) * MIB);
        *mine = alloc(3 * MIB);
        assert_int_equal(cuMemsetD8_v2(*mine, (unsigned char)(step % KEPT), 3 * MIB), CUDA_SUCCESS);
        release(large);
        pool_release(pool, 0, SIZE_MAX);
        assert_true(driver_free_bytes() >= device_total - KEPT * 8 * MIB);
    }
    assert_int_equal(most_reserved, 8);
    for (int i = 0; i < KEPT; i++)
        release(kept[i]);
    pool_release(pool, 0, SIZE_MAX);
    assert_int_equal(reserved, 0);
    assert_int_equal(driver_free_bytes(), device_total);
}

static CUresult refuse_to_reserve(CUdeviceptr *pointer, size_t size, size_t alignment,
                                  CUdeviceptr at, unsigned long long flags) {
    (void)pointer, (void)size, (void)alignment, (void)at, (void)flags;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* What fills a hole, and what lies on both sides of it, serve one request together. */
static void a_hole_is_filled_where_there_are_no_other_addresses(void **state) {
    (void)state;
    CUdeviceptr large, before, after, between;
    if (policy->keeper != &keeper_mapped) /* whose chunks have other sizes */
        return;
    before = alloc(8 * MIB);
    between = alloc(32 * MIB);
    after = alloc(8 * MIB);
    driver.mem_address_reserve = refuse_to_reserve;
    for (int i = 0; i < 6; i++) { /* more than the reservation has addresses for */
        large = alloc(100 * MIB);
        alloc(12 * MIB);
        release(large);
        pool_release(pool, 0, SIZE_MAX);
    }
    release(between);
    pool_release(pool, 0, SIZE_MAX);
    between = alloc(32 * MIB);
    assert_true(between == before + 8 * MIB && between + 32 * MIB == after);
    release(before);
    release(after);
    release(between);
    uint64_t calls = stats_get(STATS_map_calls);
    assert_int_equal(alloc(48 * MIB), before);
    assert_int_equal(stats_get(STATS_map_calls), calls);
    driver.mem_address_reserve = cuMemAddressReserve;
}

/* --- what other threads do meanwhile --- */

static pthread_t other_thread;
static bool other_started;

static void *end_primary(void *unused) {
    (void)unused;
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(end_primary_wholly(pool), CUDA_SUCCESS);
    return NULL;
}

static void start_ending(void) {
    if (other_started)
        return;
    other_started = true;
    assert_int_equal(pthread_create(&other_thread, NULL, end_primary, NULL), 0);
    usleep(100000);
}

static CUresult map_while_ending(CUdeviceptr pointer, size_t size, size_t offset,
                                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
    start_ending();
    return cuMemMap(pointer, size, offset, handle, flags);
}

static void a_context_that_ends_during_an_allocation_leaves_no_block(void **state) {
    CUdeviceptr pointer;
    const struct call_site site = {.frames = {1}, .depth = 1};
    (void)state;
    if (policy->source != &source_mapped)
        return;
    other_started = false;
    driver.mem_map = map_while_ending;
    assert_int_equal(pool_malloc(pool, &pointer, 4 * MIB, &site), CUDA_SUCCESS);
    driver.mem_map = cuMemMap;
    assert_int_equal(pthread_join(other_thread, NULL), 0);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_held_bytes), 0);
}

static void *release_all(void *unused) {
    (void)unused;
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    pool_release(pool, 0, SIZE_MAX);
    return NULL;
}

static atomic_bool in_release;

/* Until another thread has been refused memory, and has had a while to look for some. */
static void be_slow(void) {
    uint64_t before = stats_get(STATS_oom_events);
    if (atomic_exchange(&in_release, true))
        return;
    while (stats_get(STATS_oom_events) == before)
        usleep(100);
    usleep(20000);
}

static CUresult release_slowly(CUmemGenericAllocationHandle handle) {
    be_slow();
    return cuMemRelease(handle);
}

static CUresult trim_slowly(CUmemoryPool memory_pool, size_t bytes) {
    be_slow();
    return cuMemPoolTrimTo(memory_pool, bytes);
}

static void memory_on_its_way_to_the_driver_is_waited_for(void **state) {
    (void)state;
    if (!policy->source->reuses)
        return;
    CUdeviceptr pointer, foreign;
    atomic_store(&in_release, false);
    driver.mem_release = release_slowly;
    driver.mem_pool_trim_to = trim_slowly;
    release(alloc(64 * MIB));
    size_t available = driver_free_bytes();
    assert_true(available < device_total - 2 * MIB);
    assert_int_equal(pthread_create(&other_thread, NULL, release_all, NULL), 0);
    while (!atomic_load(&in_release))
        usleep(100);
    assert_int_equal(cuMemAlloc_v2(&foreign, available), CUDA_SUCCESS);
    pool_make_room(pool, "cuMemAlloc", 0,
                   POOL_ASKS_DEVICE_MEMORY); /* false if all is back before it looks */
    assert_int_equal(cuMemAlloc_v2(&pointer, 4 * MIB), CUDA_SUCCESS);
    assert_int_equal(pthread_join(other_thread, NULL), 0);
    driver.mem_release = cuMemRelease;
    driver.mem_pool_trim_to = cuMemPoolTrimTo;
    assert_true(pool_is_valid(pool));
    assert_int_equal(cuMemFree_v2(foreign), CUDA_SUCCESS);
    assert_int_equal(cuMemFree_v2(pointer), CUDA_SUCCESS);
}

/* --- requests of other threads that lack memory, too --- */

static _Thread_local bool is_other, is_refused;
static sem_t asks, goes;

/* The other thread is in the driver until it may go on. */
static CUresult create_in_turn(CUmemGenericAllocationHandle *handle, size_t size,
                               const CUmemAllocationProp *properties, unsigned long long flags) {
    if (is_other) {
        sem_post(&asks);
        sem_wait(&goes);
        sem_post(&goes); /* to stay */
    }
    CUresult result = cuMemCreate(handle, size, properties, flags);
    is_refused = result == CUDA_ERROR_OUT_OF_MEMORY;
    return result;
}

/* For more than there is. */
static void *ask_for_too_much(void *unused) {
    const struct call_site site = {.frames = {2}, .depth = 1};
    CUdeviceptr pointer;
    is_other = true;
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(pool_malloc(pool, &pointer, 64 * MIB, &site), CUDA_ERROR_OUT_OF_MEMORY);
    return unused;
}

static void begin_another_attempt(void) {
    other_started = true;
    assert_int_equal(pthread_create(&other_thread, NULL, ask_for_too_much, NULL), 0);
    sem_wait(&asks);
}

static void prepare_turns(void) {
    sem_init(&asks, 0, 0);
    sem_init(&goes, 0, 0);
    other_started = is_refused = false;
    driver.mem_create = create_in_turn;
}

static void end_turns(void) {
    sem_post(&goes);
    assert_int_equal(pthread_join(other_thread, NULL), 0);
    assert_true(pool_is_valid(pool));
    driver.mem_create = cuMemCreate;
}

static CUresult begin_another_after_a_refusal(size_t *available, size_t *total) {
    if (is_refused && !other_started)
        begin_another_attempt();
    return cuMemGetInfo_v2(available, total);
}

static CUresult ask(CUdeviceptr *pointer, size_t bytes) {
    const struct call_site site = {.frames = {1}, .depth = 1};
    return pool_malloc(pool, pointer, bytes, &site);
}

static void an_attempt_that_began_after_a_refusal_is_not_waited_for(void **state) {
    (void)state;
    CUdeviceptr foreign, pointer;
    if (policy->source != &source_mapped)
        return;
    prepare_turns();
    assert_int_equal(cuMemAlloc_v2(&foreign, driver_free_bytes()), CUDA_SUCCESS);
    driver.mem_get_info = begin_another_after_a_refusal;
    assert_int_equal(ask(&pointer, 64 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(other_started);
    assert_int_equal(stats_get(STATS_wait_ns), 0);
    driver.mem_get_info = cuMemGetInfo_v2;
    end_turns();
    assert_int_equal(cuMemFree_v2(foreign), CUDA_SUCCESS);
}

static void what_does_not_fit_beside_live_memory_waits_for_no_attempt(void **state) {
    (void)state;
    CUdeviceptr live, pointer;
    if (policy->source != &source_mapped)
        return;
    live = alloc(device_total - 32 * MIB);
    prepare_turns();
    begin_another_attempt();
    assert_int_equal(ask(&pointer, 48 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(stats_get(STATS_wait_ns), 0);
    end_turns();
    release(live);
}

static void *let_the_other_go(void *unused) {
    while (!stats_get(STATS_oom_events))
        usleep(100);
    usleep(20000); /* the refused one looks for memory */
    sem_post(&goes);
    return unused;
}

static void idle_memory_that_an_attempt_has_taken_is_waited_for(void **state) {
    (void)state;
    CUdeviceptr foreign, pointer;
    pthread_t helper;
    if (policy->source != &source_mapped)
        return;
    release(alloc(32 * MIB));
    assert_int_equal(cuMemAlloc_v2(&foreign, driver_free_bytes()), CUDA_SUCCESS);
    prepare_turns();
    begin_another_attempt();
    assert_int_equal(pthread_create(&helper, NULL, let_the_other_go, NULL), 0);
    assert_int_equal(ask(&pointer, 32 * MIB), CUDA_SUCCESS);
    assert_int_equal(pthread_join(helper, NULL), 0);
    end_turns();
    release(pointer);
    assert_int_equal(cuMemFree_v2(foreign), CUDA_SUCCESS);
}

/* --- driver calls that fail or may not be made --- */

static int unmapped;

static CUresult count_unmap(CUdeviceptr pointer, size_t size) {
    unmapped++;
    return cuMemUnmap(pointer, size);
}

static CUcontext other_context;
static pthread_t ending;
static atomic_bool has_ended;

static void *end_other(void *unused) {
    (void)unused;
    pool_context_ending(pool, other_context);
    atomic_store(&has_ended, true);
    return NULL;
}

/* The work that this waits for may itself wait for the thread that ends the other context. */
static CUresult wait_while_another_ends(void) {
    if (!TAILQ_FIRST(&pool->devices)->releasing) /* the end has not begun */
        return cuCtxSynchronize();
    driver.ctx_synchronize = cuCtxSynchronize;
    assert_int_equal(pthread_create(&ending, NULL, end_other, NULL), 0);
    for (int i = 0; i < 20000 && !atomic_load(&has_ended); i++)
        futex_pause();
    assert_true(atomic_load(&has_ended));
    return cuCtxSynchronize();
}

static void the_end_of_a_context_does_not_wait_for_the_end_of_another(void **state) {
    (void)state;
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    if (policy->source != &source_driver_pool) /* others wait for nothing there */
        return;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    CUdeviceptr used = alloc(MIB);
    assert_int_equal(cuMemsetD8Async(used, 1, MIB, NULL), CUDA_SUCCESS);
    release(used);
    atomic_store(&has_ended, false);
    assert_int_equal(create(&other_context, 0, 0), CUDA_SUCCESS);
    pool_context_created(pool, other_context);
    release(alloc(MIB));
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    driver.ctx_synchronize = wait_while_another_ends;
    pool_primary_ending(pool, 0);
    assert_int_equal(pthread_join(ending, NULL), 0);
    assert_true(pool_is_valid(pool));
    assert_int_equal(cuCtxDestroy_v2(other_context), CUDA_SUCCESS);
}

static CUresult cannot_wait(void) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static void what_work_may_use_stays_if_the_end_can_make_no_wait(void **state) {
    (void)state;
    if (policy->source != &source_driver_pool) /* others wait for nothing there */
        return;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    CUdeviceptr used = alloc(MIB);
    assert_int_equal(cuMemsetD8Async(used, 1, MIB, NULL), CUDA_SUCCESS);
    release(used);
    driver.ctx_synchronize = cannot_wait;
    pool_end_begins(pool);
    pool_primary_ending(pool, 0);
    driver.ctx_synchronize = cuCtxSynchronize;
    assert_non_null(TAILQ_FIRST(&pool->devices)->stranded);
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    pool_end_is_over(pool, true);
    expect_nothing_left();
    assert_int_equal(TAILQ_FIRST(&pool->devices)->releasing, 0);
}

/* Unlike cuMemFree, cuMemUnmap waits for nothing. */
static void pages_that_work_may_use_are_not_unmapped_in_a_capture(void **state) {
    (void)state;
    CUdeviceptr pointer, other;
    const struct call_site site = {.frames = {1}, .depth = 1};
    if (policy->source != &source_mapped)
        return;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    pointer = alloc(device_total / 4 * 3);
    release(pointer); /* no fence yet */
    unmapped = 0;
    driver.mem_unmap = count_unmap;
    pool_capture_began(pool, "cuStreamBeginCapture_v2");
    assert_int_equal(pool_malloc(pool, &other, device_total / 2, &site), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(unmapped, 0);
    pool_capture_ended(pool);
    assert_true(pool_is_valid(pool));
    release(alloc(device_total / 2)); /* once it can be fenced */
    driver.mem_unmap = cuMemUnmap;
}

static void a_free_in_a_capture_needs_no_memory(void **state) {
    (void)state;
    CUdeviceptr foreign;
    if (!policy->keeper->cuts)
        return;
    release(alloc(16 * MIB));
    CUdeviceptr block = alloc(MIB), large = alloc(60 * MIB);
    release(large);
    assert_int_equal(cuMemAlloc_v2(&foreign, driver_free_bytes()), CUDA_SUCCESS);
    pool_capture_began(pool, "cuStreamBeginCapture_v2");
    release(block);
    pool_capture_ended(pool);
    assert_int_equal(cuMemFree_v2(foreign), CUDA_SUCCESS);
}

/* Nothing is idle here that could make room for what the pool asks for meanwhile. */
static void a_free_in_a_capture_needs_no_memory_where_none_is_idle(void **state) {
    (void)state;
    CUdeviceptr foreign;
    if (!policy->keeper->cuts)
        return;
    CUdeviceptr block = alloc(MIB), other = alloc(MIB); /* of one region, which cannot go */
    assert_int_equal(cuMemAlloc_v2(&foreign, driver_free_bytes()), CUDA_SUCCESS);
    pool_capture_began(pool, "cuStreamBeginCapture_v2");
    release(block);
    pool_capture_ended(pool);
    assert_int_equal(cuMemFree_v2(foreign), CUDA_SUCCESS);
    release(alloc(device_total - 32 * MIB)); /* for which it must be had again */
    release(other);
}

static CUresult fail_to_record(CUcontext handle, CUevent event) {
    (void)handle;
    (void)event;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult fail_to_synchronize(CUevent event) {
    (void)event;
    return CUDA_ERROR_CAPTURED_EVENT;
}

static void deferred_memory_comes_back_although_its_fence_is_lost(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    driver.event_query = driver.event_synchronize = fail_to_synchronize;
    release(alloc(device_total / 4 * 3));
    release(alloc(device_total / 2));
    driver.event_query = cuEventQuery;
    driver.event_synchronize = cuEventSynchronize;
}

static void deferred_memory_comes_back_without_fences(void **state) {
    (void)state;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    driver.ctx_record_event = fail_to_record;
    release(alloc(device_total / 4 * 3));
    release(alloc(device_total / 2));
    driver.ctx_record_event = cuCtxRecordEvent;
}

static CUresult fail_to_wait(CUstream stream) {
    (void)stream;
    driver.stream_synchronize = cuStreamSynchronize;
    return CUDA_ERROR_UNKNOWN;
}

static void what_could_not_be_waited_for_goes_back(void **state) {
    (void)state;
    CUdeviceptr pointer;
    if (policy->source != &source_driver_pool)
        return;
    release(alloc(MIB));
    driver.stream_synchronize = fail_to_wait;
    assert_int_not_equal(try_alloc(&pointer, 32 * MIB, 1), CUDA_SUCCESS);
    pool_release(pool, 0, SIZE_MAX);
    assert_int_equal(driver_free_bytes(), device_total);
}

/* Several that one fence has covered, too. */
static void tainted_regions_go_back(void **state) {
    (void)state;
    CUdeviceptr blocks[3];
    if (!policy->keeper->cuts)
        return;
    stop(NULL);
    struct pool_config deferring = defaults;
    deferring.free_mode = POOL_FREE_DEFER;
    start_with(deferring);
    for (int i = 0; i < 3; i++) {
        blocks[i] = alloc(40 * MIB);
        pool_taint(pool, blocks[i], POOL_TAINT_SYNC_MEMOPS);
    }
    for (int i = 0; i < 3; i++)
        release(blocks[i]);
    release(alloc(1000)); /* by now a fence has been recorded */
    release(alloc(1000)); /* and has been found to have passed */
    pool_release(pool, 0, SIZE_MAX);
    assert_true(driver_free_bytes() > device_total - 40 * MIB);
}

/* Fills the device with blocks of that size. */
static int fill(CUdeviceptr *blocks, int most, size_t bytes) {
    int count = 0;
    while (count < most && try_alloc(&blocks[count], bytes, 1) == CUDA_SUCCESS)
        count++;
    return count;
}

/* Each chunk ends within a block. What is registered bars its own chunks alone. */
static void what_lies_beside_a_registered_block_serves_again(void **state) {
    (void)state;
    enum { MOST = 100 };
    CUdeviceptr blocks[MOST], pointer;
    if (policy->keeper != &keeper_mapped) /* whose chunks have other sizes */
        return;
    int count = fill(blocks, MOST, 3 * MIB), served = 0;
    assert_in_range(count, 40, MOST - 1);
    pool_taint(pool, blocks[count / 2], POOL_TAINT_DMA_BUF);
    release(blocks[count / 2]);
    for (int i = 0; i < count; i += 2)
        if (i != count / 2)
            release(blocks[i]);
    while (try_alloc(&pointer, 3 * MIB, 1) == CUDA_SUCCESS)
        served++;
    int freed = (count + 1) / 2 - (count / 2 % 2 == 0);
    assert_true(served >= freed - 2); /* two had a part in its chunks */
}

/* A dma-buf reaches the memory, whoever has it then. */
static void what_others_may_reach_serves_no_request(void **state) {
    (void)state;
    enum { MOST = 100 };
    CUdeviceptr blocks[MOST], pointer;
    if (policy->source != &source_mapped)
        return;
    int count = fill(blocks, MOST, 3 * MIB);
    CUdeviceptr from = blocks[7], until = blocks[7] + 3 * MIB;
    pool_taint(pool, blocks[7], POOL_TAINT_DMA_BUF);
    release(blocks[7]);
    while (try_alloc(&pointer, 65536, 1) == CUDA_SUCCESS)
        assert_true(pointer >= until || pointer + 65536 <= from);
    assert_in_range(count, 40, MOST);
}

/* An attribute that copies wait by is no reason to fail: UCX sets it on all that it sees. */
static void registered_memory_serves_before_a_request_fails(void **state) {
    (void)state;
    enum { MOST = 500 };
    CUdeviceptr blocks[MOST];
    if (policy->source != &source_mapped)
        return;
    int count = fill(blocks, MOST, 600 << 10), kept = 0, again = 0;
    assert_in_range(count, 200, MOST - 1);
    for (int i = 0; i < count; i++)
        pool_taint(pool, blocks[i], POOL_TAINT_SYNC_MEMOPS);
    for (int i = 0; i < count; i++) /* two of three, so that each chunk keeps a live block */
        if (i % 3)
            release(blocks[i]);
        else
            blocks[kept++] = blocks[i];
    again = fill(blocks + kept, MOST - kept, 600 << 10);
    assert_int_equal(kept + again, count);
    for (int i = 0; i < count; i++)
        release(blocks[i]);
    pool_release(pool, 0, SIZE_MAX);
    assert_int_equal(driver_free_bytes(), device_total);
}

/* As a long-lived program does: blocks come and go, and each is registered. */
static void a_program_that_registers_all_its_blocks_does_not_run_out(void **state) {
    (void)state;
    enum { BLOCKS = 64, STEPS = 4000 };
    CUdeviceptr blocks[BLOCKS] = {0};
    size_t sizes[BLOCKS] = {0}, live = 0;
    uint32_t random = 4711;
    if (policy->source != &source_mapped)
        return;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        int i = (int)(random >> 8) % BLOCKS;
        size_t size = ((random >> 16) % 60 + 1) * 100000;
        if (blocks[i]) {
            release(blocks[i]);
            live -= sizes[i];
            blocks[i] = 0;
        } else if (live + size < device_total / 2) {
            sizes[i] = size;
            blocks[i] = alloc(size);
            live += size;
            pool_taint(pool, blocks[i], POOL_TAINT_SYNC_MEMOPS);
        }
    }
}

/* Something has freed it past the pool, and the driver gives its address again. */
static void a_region_that_the_driver_gives_anew_replaces_its_stale_record(void **state) {
    (void)state;
    CUdeviceptr block = alloc(MIB);
    if (!policy->keeper->cuts)
        return;
    pool_lock(pool);
    struct pool_block *stale = ledger_find(pool, block);
    const struct request request = {
        .context = stale->context, .site = stale->site, .bytes = MIB, .size = MIB};
    const struct obtained obtained = {.pointer = block, .size = stale->region->size};
    assert_non_null(suballocation_adopt(pool, &request, &obtained));
    pool_unlock(pool);
    assert_true(pool_is_valid(pool));
    assert_int_equal(stats_get(STATS_live_blocks), 1);
}

/* The words of the option and the table of policies are the same list. */
static void policies_are_the_options_words(void **state) {
    (void)state;
    char words[256];
    size_t length = 0;
    for (size_t i = 0; i < policy_count; i++)
        length += (size_t)snprintf(words + length, sizeof words - length, "%s%s", i ? "|" : "",
                                   policies[i].name);
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_table[i].name, "POOLCUDA_POLICY") == 0)
            assert_string_equal(option_table[i].words, words);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(the_same_request_is_served_again_without_the_driver),
        TEST(reused_memory_is_cleared_on_request),
        TEST(live_blocks_never_overlap),
        TEST(idle_memory_never_makes_a_request_fail),
        TEST(what_is_reported_free_counts_idle_memory),
        TEST(trimming_gives_everything_back),
        TEST(idle_memory_stays_within_its_limit),
        TEST(memory_that_nobody_needed_for_a_while_is_given_up),
        TEST(a_second_free_is_refused_and_unknown_pointers_are_the_drivers),
        TEST(a_context_that_ends_leaves_nothing_behind),
        TEST(what_is_live_stays_until_the_driver_has_ended_its_context),
        TEST(what_is_live_stays_if_the_driver_refuses_to_end_its_context),
        TEST(what_is_on_its_way_to_a_request_as_the_end_is_refused_can_be_freed),
        TEST(what_a_lost_context_had_goes_whatever_its_end_is_answered),
        TEST(an_end_waits_for_nobody_who_uses_other_contexts),
        TEST(nobody_begins_to_use_the_source_of_a_context_that_is_about_to_end),
        TEST(deferred_blocks_are_served_once_their_work_is_over),
        TEST(only_fences_whose_blocks_can_serve_are_waited_for),
        TEST(fences_of_blocks_that_are_kept_for_other_requests_are_not_waited_for),
        TEST(the_usage_describes_the_idle_memory),
        TEST(addresses_are_aligned_as_the_drivers_are),
        TEST(neighbours_that_are_freed_serve_a_larger_request_as_they_are),
        TEST(a_small_live_block_pins_no_more_than_its_chunk),
        TEST(addresses_that_were_unmapped_are_mapped_again),
        TEST(a_hole_is_filled_where_there_are_no_other_addresses),
        TEST(a_context_that_ends_during_an_allocation_leaves_no_block),
        TEST(memory_on_its_way_to_the_driver_is_waited_for),
        TEST(an_attempt_that_began_after_a_refusal_is_not_waited_for),
        TEST(what_does_not_fit_beside_live_memory_waits_for_no_attempt),
        TEST(idle_memory_that_an_attempt_has_taken_is_waited_for),
        TEST(the_end_of_a_context_does_not_wait_for_the_end_of_another),
        TEST(what_work_may_use_stays_if_the_end_can_make_no_wait),
        TEST(pages_that_work_may_use_are_not_unmapped_in_a_capture),
        TEST(a_free_in_a_capture_needs_no_memory),
        TEST(a_free_in_a_capture_needs_no_memory_where_none_is_idle),
        TEST(deferred_memory_comes_back_without_fences),
        TEST(deferred_memory_comes_back_although_its_fence_is_lost),
        TEST(what_could_not_be_waited_for_goes_back),
        TEST(tainted_regions_go_back),
        TEST(what_lies_beside_a_registered_block_serves_again),
        TEST(what_others_may_reach_serves_no_request),
        TEST(registered_memory_serves_before_a_request_fails),
        TEST(a_program_that_registers_all_its_blocks_does_not_run_out),
        TEST(a_region_that_the_driver_gives_anew_replaces_its_stale_record),
        cmocka_unit_test(policies_are_the_options_words),
    };
    uint64_t (*hazards)(void);
    int failed = 0;
    for (size_t i = 0; i < policy_count; i++) {
        policy = &policies[i];
        failed += _cmocka_run_group_tests(policy->name, tests, sizeof tests / sizeof tests[0], NULL,
                                          NULL);
    }
    *(void **)&hazards = dlsym(RTLD_DEFAULT, "simcuda_hazards");
    return failed || (hazards && hazards() > 0);
}
