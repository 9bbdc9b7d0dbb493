/* What the pool's own files share. */
#ifndef POOLCUDA_POOL_INTERNAL_H
#define POOLCUDA_POOL_INTERNAL_H

#include "base/clock.h"
#include "base/futex.h"
#include "base/lock.h"
#include "base/planted.h"
#include "base/sizes.h"
#include "pool/bounds.h"
#include "pool/fence.h"
#include "pool/managed.h"
#include "pool/pitch.h"
#include "pool/pool_struct.h"
#include "pool/release.h"
#include "pool/request.h"
#include "pool/wait.h"
#include "sources/kinds.h"

/* The clock in nanoseconds. No other clock decides anything, but for how long threads wait for each
 * other. */
uint64_t pool_now(const struct pool *pool);

void pool_lock(struct pool *pool);

void pool_unlock(struct pool *pool);

/* For a call that takes the lock again and needs no cache until then: to start its thread's and
 * stop it again would cost more than what is done in between. */
void pool_unlock_between(struct pool *pool);

/* Caches serve only what they may as things are now, and this thread's goes on. Lock not held. */
void pool_grant_anew(struct pool *pool);

/* Nothing is pooled once the driver has shut down. Lock not held. */
void pool_note_shutdown(struct pool *pool, CUresult error);

/* Whether there may be green contexts, whose memory their primary ones own. */
bool context_has_green(const struct pool *pool);
/* created_contexts.c: where a green context is current, makes that owner current, until
 * pool_pop_device. False: it has not. Lock not held. */
bool context_push_owner(struct pool *pool);

/* The driver's functions for a kind of memory. Lock not held. */
CUresult source_allocate(const struct pool *pool, const struct pool_kind *kind, size_t size,
                         CUdeviceptr *pointer);
/* Allocates so and counts it: also for policies, where their own way is barred. Lock not held. */
CUresult source_obtain(struct pool *pool, const struct pool_kind *kind, size_t size,
                       struct obtained *obtained);
/* Whether calls about such memory are timed for the report: where the source has another way to
 * obtain memory, they are not like those that pooling avoids. */
bool source_is_timed(const struct pool *pool, enum pool_memory memory);
/* A request that is served from idle memory, or freed, for the least of its site: as the driver
 * would have rounded it, whatever the pool asks for in its place. Lock held. */
void source_note_size(const struct context *context, const struct site *site, size_t bytes);
/* Whether blocks of the context may be waiting for a fence, or for one to be made. Lock held. */
bool context_may_defer(const struct context *context);

uint64_t device_idle(const struct device *device);

uint64_t device_idle_blocks(const struct device *device);

/* Counts so many that are no cache's. */
void device_count(struct device *device, uint64_t allocations, uint64_t hits);

/* Counts a call of that kind of memory: device memory has no counters of its own. */
void count_by_kind(enum pool_memory memory, enum stats_counter host, enum stats_counter managed);

/* The block at exactly this address. Lock held. */
struct pool_block *ledger_find(const struct pool *pool, CUdeviceptr pointer);

/* Whether cuMemFree would do less for the block than for what cuMemAlloc gives. */
bool is_suballocation(const struct pool_block *block);

/* valid.c, for tests: whether every invariant above is true. Lock not held. */
bool pool_is_valid(struct pool *pool);

#endif
