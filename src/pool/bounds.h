/* What every miss looks at of the bounds: hence inline. The rest is in bounds.c. All below: lock
 * held. */
#ifndef POOLCUDA_POOL_BOUNDS_H
#define POOLCUDA_POOL_BOUNDS_H

#include "pool/internal.h"

/* The bound on waste: the physical bytes by which reused blocks may exceed the requests that they
 * serve, over all live blocks of a device. */

/* Bytes that reuse may still add. */
static inline uint64_t waste_bound_left(const struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    static const uint64_t slack = 32 << 20;
    if (PLANTED(oversize))
        return UINT64_MAX;
    uint64_t share = device->total / 200 * 3, peak = device->peak_in_use / 50 + slack;
    uint64_t allowed =
        limit_in_bytes(&pool->config.max_waste, device->total, share < peak ? share : peak);
    return allowed > device->over_size ? allowed - device->over_size : 0;
}

/* What a block must be to serve a request of `bytes`, rounded to `size`. */
static inline struct fit waste_bound_fit(const struct pool *pool, const struct context *context,
                                         size_t bytes, size_t size) {
    lock_check_held(LOCK_POOL);
    double ratio = PLANTED(oversize) ? 1e9 : pool->config.reuse_ratio;
    const struct device *device = context->device;
    return (struct fit){.bytes = bytes,
                        .size = size,
                        .ratio = ratio,
                        .surplus = waste_bound_left(pool, device),
                        .steal = pool->config.steal,
                        .little = device->saves};
}

/* What was given up to keep within a bound, and was then missed: so that the report can tell
 * whether it is the program that causes misses, or the bound. Remembered are sizes alone, the last
 * of each of some classes. */

static inline uint64_t *given_up_place(struct device *device, size_t size) {
    lock_check_held(LOCK_POOL);
    return &device->given_up[(uint64_t)size * 0x9e3779b97f4a7c15u >> (64 - GIVEN_UP_BITS)];
}

/* Blocks that are given up, linked through next_leaving up to `end`. */
static inline void given_up_note(struct device *device, const struct pool_block *blocks,
                                 const struct pool_block *end) {
    lock_check_held(LOCK_POOL);
    for (; blocks != end; blocks = blocks->next_leaving)
        *given_up_place(device, blocks->size) = blocks->size;
}

/* A miss that one of them may have caused. */
static inline void given_up_miss(struct device *device, size_t size) {
    lock_check_held(LOCK_POOL);
    uint64_t *place = given_up_place(device, size);
    if (__builtin_expect(*place != size, 1))
        return;
    *place = 0;
    stats_add(STATS_bound_misses, 1);
}

#endif
