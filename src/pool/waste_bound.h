/* The bound on waste: the physical bytes by which reused blocks may exceed the requests that they
 * serve, over all live blocks of a device. Inline: every miss of a thread's cache asks. All below:
 * lock held. */
#ifndef POOLCUDA_POOL_WASTE_BOUND_H
#define POOLCUDA_POOL_WASTE_BOUND_H

#include "pool/internal.h"

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
    return (struct fit){bytes, size, ratio, waste_bound_left(pool, context->device),
                        pool->config.steal};
}

#endif
