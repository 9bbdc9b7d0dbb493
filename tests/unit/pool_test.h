/* What the pool's unit tests share: a pool on a fake driver, calls that check every invariant. */
#ifndef TESTS_POOL_TEST_H
#define TESTS_POOL_TEST_H

/* cmocka.h needs the others before it. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include "fake_driver.h"
#include "peers/own_open.h"
#include "pool/internal.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };
#define GIB ((uint64_t)1 << 30)

static struct pool *pool;

static const struct pool_config pool_defaults = {.reuse_ratio = 2.0, .steal = true};

static inline void start_with(const struct pool_config *config, uint64_t capacity) {
    fake_reset(capacity);
    for (int i = 0; i < STATS_COUNTERS; i++)
        stats_set((enum stats_counter)i, 0);
    pool = pool_create(config, fake_driver());
    assert_non_null(pool);
}

static inline int start(void **state) {
    (void)state;
    start_with(&pool_defaults, 80 * GIB);
    return 0;
}

static inline int stop(void **state) {
    (void)state;
    pool_destroy(pool);
    fake_reset(0);
    return 0;
}

/* As in a forked child, which leaves the pool to its parent and makes another. */
static inline void go_on_as_child(void) {
    struct pool_config config;
    pool_leave_after_fork(pool, &config);
    stats_forget_after_fork();
    pool = pool_create(&config, fake_driver());
    assert_non_null(pool);
}

static inline struct call_site site(uintptr_t number) {
    return (struct call_site){.frames = {number}, .depth = 1};
}

static inline CUresult try_alloc(CUdeviceptr *pointer, size_t bytes, uintptr_t number) {
    struct call_site key = site(number);
    CUresult result = pool_malloc(pool, pointer, bytes, &key);
    assert_true(pool_is_valid(pool));
    return result;
}

static inline CUdeviceptr alloc_at(size_t bytes, uintptr_t number) {
    CUdeviceptr pointer = 0;
    assert_int_equal(try_alloc(&pointer, bytes, number), CUDA_SUCCESS);
    assert_true(fake_size(pointer) >= bytes);
    return pointer;
}

static inline CUdeviceptr alloc(size_t bytes) {
    return alloc_at(bytes, 1);
}

/* A pool on a device of which more than a twentieth is used: there blocks serve by the ratio. */
static inline void start_where_much_is_used(const struct pool_config *config) {
    start_with(config, 80 * GIB);
    alloc_at(5 * GIB, 99);
}

/* The current context is lost by an error that a call has told of it. */
static inline void lose_current_context(void) {
    fake.lost[0] = fake.current;
    pool_note_error(pool, CUDA_ERROR_ILLEGAL_ADDRESS);
    fake.lost[0] = NULL;
}

static inline CUresult try_free(CUdeviceptr pointer) {
    CUresult result = pool_free(pool, pointer);
    assert_true(pool_is_valid(pool));
    return result;
}

static inline void release(CUdeviceptr pointer) {
    assert_int_equal(try_free(pointer), CUDA_SUCCESS);
}

/* Without looking at all that the pool keeps: a check would stop the thread's cache, which is to go
 * on serving. */
static inline CUdeviceptr quick_alloc(size_t bytes, uintptr_t number) {
    CUdeviceptr pointer = 0;
    struct call_site key = site(number);
    assert_int_equal(pool_malloc(pool, &pointer, bytes, &key), CUDA_SUCCESS);
    return pointer;
}

static inline void quick_release(CUdeviceptr pointer) {
    assert_int_equal(pool_free(pool, pointer), CUDA_SUCCESS);
}

/* Calls after which a cache serves many before one goes the long way. */
enum { GROWN_UP = 3000 };

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

#endif
