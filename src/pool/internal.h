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
static inline uint64_t pool_now(const struct pool *pool) {
    return pool->config.clock ? pool->config.clock() : clock_ns(CLOCK_MONOTONIC_COARSE);
}

static inline void pool_lock(struct pool *pool) {
    lock_take(&pool->lock, LOCK_POOL);
    pool->follower.stop(pool);
}

static inline void pool_unlock(struct pool *pool) {
    pool->follower.resume(pool, true);
    lock_drop(&pool->lock, LOCK_POOL);
}

/* For a call that takes the lock again and needs no cache until then: to start its thread's and
 * stop it again would cost more than what is done in between. */
static inline void pool_unlock_between(struct pool *pool) {
    pool->follower.resume(pool, false);
    lock_drop(&pool->lock, LOCK_POOL);
    if (PLANTED(slow_between))
        futex_pause();
}

/* Caches serve only what they may as things are now, and this thread's goes on. Lock not held. */
static inline void pool_grant_anew(struct pool *pool) {
    lock_check_none();
    pool_lock(pool);
    pool_unlock(pool);
}

/* Nothing is pooled once the driver has shut down. Lock not held. */
static inline void pool_note_shutdown(struct pool *pool, CUresult error) {
    lock_check_none();
    if (error != CUDA_ERROR_DEINITIALIZED)
        return;
    atomic_store(&pool->down, true);
    pool_grant_anew(pool);
}

/* created_contexts.c: makes a green context's primary one current, which owns all that is allocated
 * there, until pool_pop_device. NULL: it has not. Lock not held. */
struct pool *context_push_owner(struct pool *pool);
static inline void context_leave_owner(struct pool **pushed) {
    if (*pushed)
        pool_pop_device(*pushed, true);
}
#define WITH_OWNER_CURRENT(pool) /* until the block is left */                                     \
    struct pool *pushed __attribute__((cleanup(context_leave_owner), unused)) =                    \
        atomic_load(&(pool)->lasting[WAIT_REASON_green]) ? context_push_owner(pool) : NULL
/* The driver's functions for a kind of memory. Lock not held. */
static inline CUresult source_allocate(const struct pool *pool, const struct pool_kind *kind,
                                       size_t size, CUdeviceptr *pointer) {
    lock_check_none();
    return kind->memory == POOL_DEVICE ? pool->driver->mem_alloc(pointer, size)
                                       : source_allocate_other(pool->driver, kind, size, pointer);
}
/* Allocates so and counts it: also for policies, where their own way is barred. Lock not held. */
static inline CUresult source_obtain(struct pool *pool, const struct pool_kind *kind, size_t size,
                                     struct obtained *obtained) {
    lock_check_none();
    *obtained = (struct obtained){.size = size};
    CUresult result = source_allocate(pool, kind, size, &obtained->pointer);
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    return result;
}
/* Whether calls about such memory are timed for the report: where the source has another way to
 * obtain memory, they are not like those that pooling avoids. */
static inline bool source_is_timed(const struct pool *pool, enum pool_memory memory) {
    return memory != POOL_DEVICE || !pool->source->obtain;
}
/* A request that is served from idle memory, or freed, for the least of its site: as the driver
 * would have rounded it, whatever the pool asks for in its place. Lock held. */
static inline void source_note_size(const struct context *context, const struct site *site,
                                    size_t bytes) {
    lock_check_held(LOCK_POOL);
    uint64_t least = stats_site_least(site->stats);
    if (__builtin_expect(!least || bytes < least, 0))
        stats_site_serves(site->stats, context->kind.memory == POOL_DEVICE
                                           ? round_physical(bytes)
                                           : context->keeper->round(bytes));
}
/* Whether blocks of the context may be waiting for a fence, or for one to be made. Lock held. */
static inline bool context_may_defer(const struct context *context) {
    lock_check_held(LOCK_POOL);
    return !LIST_EMPTY(&context->unfenced) || !TAILQ_EMPTY(&context->fences);
}

static inline uint64_t device_idle(const struct device *device) {
    return device->held - device->live;
}

static inline uint64_t device_idle_blocks(const struct device *device) {
    return device->blocks - device->live_blocks;
}

/* Counts so many that are no cache's. */
static inline void device_count(struct device *device, uint64_t allocations, uint64_t hits) {
    device->allocations += allocations;
    device->hits += hits;
    if (device->stats) {
        stats_grow(&device->stats->allocations, allocations);
        stats_grow(&device->stats->hits, hits);
    }
}

/* Counts a call of that kind of memory: device memory has no counters of its own. */
static inline void count_by_kind(enum pool_memory memory, enum stats_counter host,
                                 enum stats_counter managed) {
    if (__builtin_expect(memory != POOL_DEVICE, 0))
        stats_add(memory == POOL_HOST ? host : managed, 1);
}

/* The block at exactly this address. Lock held. */
static inline struct pool_block *ledger_find(const struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    return pointer_map_find(&pool->map, pointer);
}

/* Whether cuMemFree would do less for the block than for what cuMemAlloc gives. */
static inline bool is_suballocation(const struct pool_block *block) {
    return block->context->keeper->cuts || block->in_driver_pool;
}

/* valid.c, for tests: whether every invariant above is true. Lock not held. */
bool pool_is_valid(struct pool *pool);

#endif
