/* The bounds: how much live blocks may waste, how much may lie idle and for how long, what stays
 * free beside the pool. They are asked, and move no block: who asks gives up what is too much
 * (release.c, free.c, malloc.c). */
#ifndef POOLCUDA_POOL_BOUNDS_H
#define POOLCUDA_POOL_BOUNDS_H

#include "base/lock.h"
#include "base/planted.h"
#include "base/sizes.h"
#include "pool/shortage.h"

/* Whether each free has to ask what is too much, by a setting. Lock not needed. */
bool bounds_ask_at_frees(const struct pool_config *config);

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
uint64_t waste_bound(const struct pool_config *config, const struct device *device);
/* The bytes of so many that reuse may still waste. */
uint64_t waste_left(const struct device *device, uint64_t allowed);
/* What a block must be to serve a request of `bytes`, rounded to `size`. */
struct fit waste_bound_fit(const struct pool_config *config, const struct device *device,
                           size_t bytes, size_t size);

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
void decay_note_idle(struct device *device, int64_t idle);

/* Headroom is what stays free beside the pool. Whether the driver may lack memory for launches once
 * `grown` bytes were allocated, and is to be asked. That costs more than an allocation: after each
 * answer half of what there is above the headroom may be allocated before it is asked again. */
bool headroom_may_lack(struct device *device, uint64_t grown);
/* Whether it is not, with so much idle. */
bool headroom_is_there(const struct device *device, uint64_t idle, uint64_t grown);
/* That many bytes were allocated without that question. */
void headroom_shrinks(struct device *device, uint64_t grown);

/* The sizes last given up to keep within a bound, one of each of some classes: where such a one is
 * missed, the report can tell that the bound is the cause, not the program. */
uint64_t *given_up_place(struct device *device, size_t size);
/* A miss that one of them may have caused. */
void given_up_miss(struct device *device, size_t size);

#endif
