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

#include "options.h"
#include "policy/policy.h"
#include "pool/internal.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    pool_primary_ending(pool, 0);
    pool_destroy(pool);
    cuCtxSetCurrent(NULL);
    return cuDevicePrimaryCtxReset_v2(0) != CUDA_SUCCESS ||
           cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS;
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
    size_t share = device_total / (policy == &policy_bfc ? 40 : 10);
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
    assert_true(policy->keeps_nothing || stats_get(STATS_decayed_blocks) > 0);
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

static void a_context_that_ends_leaves_nothing_behind(void **state) {
    (void)state;
    release(alloc(30 * MIB));
    alloc(7 * MIB); /* live when its context ends */
    alloc(100);
    pool_primary_ending(pool, 0);
    assert_true(pool_is_valid(pool));
    assert_int_equal(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
    assert_int_equal(stats_get(STATS_held_bytes), 0);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(driver_free_bytes(), device_total);
    release(alloc(30 * MIB));
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

static void figures_describe_the_idle_memory(void **state) {
    (void)state;
    struct policy_figures figures;
    release(alloc(40 * MIB));
    policy->figures(&LIST_FIRST(&pool->contexts)->store, &figures);
    assert_true(figures.bytes >= figures.largest);
    assert_true(figures.blocks == 0 || figures.largest > 0);
    assert_true(figures.bytes <= stats_get(STATS_idle_bytes));
}

/* The words of the option and the table of policies are the same list. */
static void policies_are_the_options_words(void **state) {
    (void)state;
    char words[256];
    size_t length = 0;
    for (size_t i = 0; i < policy_count; i++)
        length += (size_t)snprintf(words + length, sizeof words - length, "%s%s", i ? "|" : "",
                                   policies[i]->name);
    for (size_t i = 0; i < option_count; i++)
        if (strcmp(option_table[i].name, "POOLCUDA_POLICY") == 0)
            assert_string_equal(option_table[i].words, words);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void) {
    static const struct CMUnitTest tests[] = {
        TEST(the_same_request_is_served_again_without_the_driver),
        TEST(live_blocks_never_overlap),
        TEST(idle_memory_never_makes_a_request_fail),
        TEST(what_is_reported_free_counts_idle_memory),
        TEST(trimming_gives_everything_back),
        TEST(idle_memory_stays_within_its_limit),
        TEST(memory_that_nobody_needed_for_a_while_is_given_up),
        TEST(a_second_free_is_refused_and_unknown_pointers_are_the_drivers),
        TEST(a_context_that_ends_leaves_nothing_behind),
        TEST(deferred_blocks_are_served_once_their_work_is_over),
        TEST(figures_describe_the_idle_memory),
        cmocka_unit_test(policies_are_the_options_words),
    };
    uint64_t (*hazards)(void);
    int failed = 0;
    for (size_t i = 0; i < policy_count; i++) {
        policy = policies[i];
        failed += _cmocka_run_group_tests(policy->name, tests, sizeof tests / sizeof tests[0], NULL,
                                          NULL);
    }
    *(void **)&hazards = dlsym(RTLD_DEFAULT, "simcuda_hazards");
    return failed || (hazards && hazards() > 0);
}
