/* The bounds: how much live blocks may waste, how much may lie idle and for how long, what stays
 * free beside the pool. They are asked, and move no block: who asks gives up what is too much
 * (release.c, free_keep.c, malloc.c). What every miss asks is inline. */
#ifndef POOLCUDA_POOL_BOUNDS_H
#define POOLCUDA_POOL_BOUNDS_H

#include "base/lock.h"
#include "base/planted.h"
#include "base/sizes.h"
#include "pool/shortage.h"

/* Whether each free has to ask what is too much, by a setting. Lock not needed. */
static inline bool bounds_ask_at_frees(const struct pool_config *config) {
    return config->site_keep || config->max_idle.kind != LIMIT_AUTO;
}

/* Misses of what was given up for a bound: so many, and it is the bound that costs calls. */
enum { MISSED_OFTEN = 32, IDLE_SLACK = 64 << 20 /* bytes */ };

/* All below: lock held.
 * bounds_yield.c: a size is missed that was given up for a bound. An allocation has failed that the
 * device is large enough for. */
void bounds_missed(struct device *device);
void bounds_tighten(struct device *device);

/* Waste is the physical bytes by which a device's live blocks exceed the requests that they serve.
 * A peak that has stood for a sixth of all allocations and frees is likely to stay: part of what
 * lies above it may go to waste, too. The bytes that reuse may waste: */
static inline uint64_t waste_bound(const struct pool_config *config, const struct device *device) {
    lock_check_held(LOCK_POOL);
    if (PLANTED(oversize))
        return UINT64_MAX;
    uint64_t total = device->total, peak = device->peak_in_use, of_peak = peak / 10 + (40 << 20);
    uint64_t share = total / 200 * 3, above = peak < total ? (total - peak) / 8 : 0;
    if (device->frugal)
        share = total / 100;
    else if (above > share && device->changes - device->peaked > device->changes / 6 + 64)
        share = above < total / 50 ? above : total / 50;
    if (device->bounds.yielded)
        of_peak *= 2;
    return limit_in_bytes(&config->max_waste, total, share < of_peak ? share : of_peak);
}

/* What blocks of any size may waste: 1/512 of the device, since nobody has any need of the rest of
 * one that is nearly empty, and a program that is young, or misses often, makes fewer calls of the
 * driver so. Later a site's own block is served sooner than another's. Small requests that stay
 * would hold large blocks for ever, so blocks of about a request's size keep a part of the bound.
 */
static inline uint64_t spare_waste(const struct pool_config *config, const struct device *device,
                                   uint64_t bound) {
    lock_check_held(LOCK_POOL);
    enum { YOUNG = 1024, SELDOM = 16 }; /* allocations; a miss in so many is seldom */
    uint64_t misses = device->allocations - device->hits;
    if (config->reuse_ratio < 2 || config->close_fit || device->frugal ||
        20 * device->peak_in_use >= device->total || device->bounds.missed >= MISSED_OFTEN ||
        device->allocations >= YOUNG + SELDOM * misses)
        return 0;
    uint64_t part = bound / 4 * 3, share = device->total / 512;
    return part < share ? part : share;
}

/* The bytes of so many that reuse may still waste. */
static inline uint64_t waste_left(const struct device *device, uint64_t allowed) {
    lock_check_held(LOCK_POOL);
    return allowed > device->over_size ? allowed - device->over_size : 0;
}

/* What a block must be to serve a request of `bytes`, rounded to `size`. */
static inline struct fit waste_bound_fit(const struct pool_config *config,
                                         const struct device *device, size_t bytes, size_t size) {
    lock_check_held(LOCK_POOL);
    double ratio = PLANTED(oversize) ? 1e9 : config->reuse_ratio;
    uint64_t bound = waste_bound(config, device), left = waste_left(device, bound);
    uint64_t spare = waste_left(device, spare_waste(config, device, bound));
    return (struct fit){.bytes = bytes,
                        .size = size,
                        .ratio = ratio,
                        .surplus = left,
                        .strict = spare ? left - spare : UINT64_MAX,
                        .steal = config->steal,
                        .little = device->saves,
                        .exact = device->exact};
}

/* Bytes by which idle memory may still grow. */
uint64_t idle_bound_room(const struct pool *pool, const struct device *device);
/* Bytes of idle memory that are to be given up, once `growth` more are live. */
uint64_t idle_bound_excess(const struct pool *pool, const struct device *device, size_t growth);
/* Bytes to allocate before idle memory is to be given back, or the driver asked what is free. */
uint64_t idle_bound_room_to_grow(const struct device *device);

/* Bytes of idle memory that were not needed of late: to be given up now. */
uint64_t decay_due(struct pool *pool, struct device *device);
bool decay_is_due(const struct pool *pool, const struct device *device); /* whether there may be */
/* Only `idle` bytes are idle now, or were. */
static inline void decay_note_idle(struct device *device, int64_t idle) {
    lock_check_held(LOCK_POOL);
    if (idle < (int64_t)device->bounds.least_idle)
        device->bounds.least_idle = idle > 0 ? (uint64_t)idle : 0;
}

/* Headroom is what stays free beside the pool. Whether the driver may lack memory for launches once
 * `grown` bytes were allocated, and is to be asked. That costs more than an allocation: after each
 * answer half of what there is above the headroom may be allocated before it is asked again. */
static inline bool headroom_may_lack(struct device *device, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    if (device->held == device->live || device->memory != POOL_DEVICE)
        return false;
    if (grown >= device->bounds.until_asked)
        return true;
    device->bounds.until_asked -= grown;
    return false;
}
/* Whether it is not, with so much idle. */
static inline bool headroom_is_there(const struct device *device, uint64_t idle, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    return !idle || grown < device->bounds.until_asked;
}
/* That many bytes were allocated without that question. */
static inline void headroom_shrinks(struct device *device, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    uint64_t *until_asked = &device->bounds.until_asked;
    *until_asked -= grown < *until_asked ? grown : *until_asked;
}

/* The sizes last given up to keep within a bound, one of each of some classes: where such a one is
 * missed, the report can tell that the bound is the cause, not the program. */
static inline uint64_t *given_up_place(struct device *device, size_t size) {
    lock_check_held(LOCK_POOL);
    uint64_t class = (uint64_t)size * 0x9e3779b97f4a7c15u >> (64 - GIVEN_UP_BITS);
    return &device->bounds.given_up[class];
}

/* A miss that one of them may have caused. */
static inline void given_up_miss(struct device *device, size_t size) {
    lock_check_held(LOCK_POOL);
    uint64_t *place = given_up_place(device, size);
    if (__builtin_expect(*place != size, 1))
        return;
    *place = 0;
    bounds_missed(device);
}

#endif
