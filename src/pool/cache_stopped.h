/* What is done with threads' caches that stand still: all of them, as the pool is locked, or one
 * that is alone. */
#ifndef POOLCUDA_POOL_CACHE_STOPPED_H
#define POOLCUDA_POOL_CACHE_STOPPED_H

#include "pool/cache_parts.h"
#include "pool/cache_table_change.h"

/* cache_making_room.c: a miss that nothing idle serves, of a cache that is alone and whose room to
 * grow is less than `size`: gives back what would be too much, if that is soon done. False: nothing
 * has happened to the request, and the cache is locked no more. Cache locked on entry, not on
 * return. */
bool cache_make_room(struct pool *pool, struct cache *cache, struct site *site, size_t size);

/* The same file: learns of such a miss of a size that is larger than all before. False: the long
 * way is to be taken, and learns of it. Cache locked. */
bool cache_learn(struct cache *cache, struct site *site, size_t size);

/* Whoever has the pool's lock has stopped all caches. So what is done between these two with a
 * cache that is alone is done as if with the pool's lock. Cache locked. */
static inline void cache_stands_for_pool(const struct cache *cache) {
    cache_check_locked(cache);
    lock_check_take(LOCK_POOL);
}
/* Cache locked. */
static inline void cache_stands_for_itself(const struct cache *cache) {
    cache_check_locked(cache);
    lock_check_drop(LOCK_POOL);
}

/* All below: lock held, and so all caches are stopped. */

/* Whether the ledger knows all that the cache has counted. Lock not needed. */
static inline bool cache_is_settled(const struct cache *cache) {
    return !(cache->sums[SUM_hits] | cache->sums[SUM_frees] | cache->sums[SUM_fresh]);
}

/* Takes the cache's lock, however long that takes. */
void cache_lock_at_last(struct pool *pool, struct cache *cache);
/* Keeps one that no pool has any more for another. Lock not needed. */
void cache_give_back(struct cache *cache);

/* The calling thread's cache for the context, made if need be. NULL: it has none. */
struct cache *cache_own(struct pool *pool, struct context *context);

/* A bin for the site's blocks of that size. NULL: there is no place for it, or no host memory. */
struct cache_bin *cache_make_bin(struct cache *cache, struct site *site, size_t size);
/* Whether nobody has used the bin's blocks since this was last asked. */
bool cache_bin_rests(struct cache_bin *bin);
/* Brings the bin's blocks into the store of the cache's context; those of all its bins. */
void cache_empty_bin(struct cache *cache, struct cache_bin *bin);
void cache_drain_one(struct cache *cache);
/* Forgets all bins: their blocks, and their stats if they are wanted, are elsewhere. */
void cache_close_bins(struct cache *cache);

#endif
