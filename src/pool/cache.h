/* Threads' caches: the path of an allocation or free that needs no decision of the pool. Mostly an
 * idle block of just its site and size serves it (quick.c); else a smallest sufficient one
 * that threads have freed (cache_serve.c), or, where nothing is idle, the driver (cache_miss). A
 * free goes this way while its wait is owed already or is left to a fence.
 *
 * Each thread has a cache for each context that it allocates in (more threads than CACHE_THREADS
 * share some) and is served from it. A hit or a free takes the lock of that cache alone,
 * which no other thread wants but when it takes the pool's lock: pool_lock stops all caches, so
 * that under it everything is as if there were none, but for idle blocks that are `cached`. So what
 * a cache's lock guards is its own blocks, and, as readers, all that changes under the pool's lock.
 *
 * What happens under a cache's lock is brought into the ledger when the pool is locked next
 * (cache_stop.c), which every cache sees to after a while: see BUDGET there. */
#ifndef POOLCUDA_POOL_CACHE_H
#define POOLCUDA_POOL_CACHE_H

#include "pool/context.h"
#include "pool/pool.h"

enum {
    CACHES = 128,       /* of one pool */
    CACHE_THREADS = 32, /* caches of one context */
};

/* Frees the last live block of its context, with a wait, if the thread's cache can keep it. False:
 * nothing has happened. *waited: NULL, or the block if it could not be kept there: what is left of
 * its free is the caller's, who has the lock then. To be called only while order_word is 0. Cache
 * locked on entry, not on return. */
bool cache_free_last(struct pool *pool, struct cache *cache, CUdeviceptr pointer,
                     struct pool_block **waited, CUresult *result);

/* All below: lock held. */

/* The pool's: nothing happens in any cache while the pool is locked, and the ledger is up to date.
 */
extern const struct lock_follower cache_follower;

/* Keeps an idle block that is kept nowhere yet. False: the store must. */
bool cache_put(struct pool *pool, struct pool_block *block);
/* To be called before a free of a block is counted in its site: merges what the thread's cache has
 * counted apart, so that the site's peak is right. */
void cache_merge_counts_of(const struct pool *pool, struct pool_block *block);
/* Takes out an idle block of just this site and size, whichever thread has it. NULL: none. */
struct pool_block *cache_take(struct pool *pool, struct context *context, struct site *site,
                              size_t size);
/* Brings cached blocks that the policy may choose for the request into the store: a smallest
 * sufficient block of the site, and one of all sites. */
void cache_offer(struct pool *pool, struct context *context, const struct site *site,
                 const struct fit *fit);
/* Brings the context's largest blocks, all that are alike, from caches into its store, unless there
 * are larger ones. */
void cache_offer_largest(struct pool *pool, struct context *context);
/* Brings all blocks of the context that caches keep into its store. */
void cache_drain(struct pool *pool, struct context *context);
/* Takes back the unused records that the thread's cache has. NULL: none. */
struct pool_block *cache_give_spares(const struct pool *pool);
/* Whether a thread is in the midst of one of these two, and so knows its context. */
bool cache_is_asking(const struct pool *pool);
/* Ends the caches of a context that ends. */
void cache_close(struct pool *pool, struct context *context);
/* The pool is at its end: nobody looks at its blocks again. */
void cache_forget(struct pool *pool);

#endif
