/* What was given up to keep within a bound, and was then missed: so that the report can tell
 * whether it is the program that causes misses, or the bound. Remembered are sizes alone, the last
 * of each of some classes. Inline: every miss looks, but those that only a cache has seen. All
 * below: lock held. */
#ifndef POOLCUDA_POOL_GIVEN_UP_H
#define POOLCUDA_POOL_GIVEN_UP_H

#include "lock.h"
#include "observe/stats.h"
#include "pool/block.h"

static inline uint64_t *given_up_place(struct device *device, size_t size) {
    lock_check_held(LOCK_POOL);
    return &device->given_up[(uint64_t)size * 0x9e3779b97f4a7c15u >> (64 - GIVEN_UP_BITS)];
}

/* Blocks that are given up, linked through by_size.rbe_left up to `end`. */
static inline void given_up_note(struct device *device, const struct pool_block *blocks,
                                 const struct pool_block *end) {
    lock_check_held(LOCK_POOL);
    for (; blocks != end; blocks = blocks->by_size.rbe_left)
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
