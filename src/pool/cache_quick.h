/* Hits and frees that need nothing but the calling thread's cache.
 *
 * Every instruction here is paid for by each allocation of a program (docs/benchmarks.md). So all
 * of it is inline, in two forms: `whole`, and one for the hooks, which leaves to `whole` what
 * happens now and then. The form for the hooks calls the driver, for the current context, and at
 * its end what needs none of its variables any more: so it has few registers to save. */
#ifndef POOLCUDA_POOL_QUICK_H
#define POOLCUDA_POOL_QUICK_H

#include "base/sizes.h"
#include "order/order.h"
#include "pool/cache_parts.h"

#include <stdlib.h>

/* The steps, which the files of caches take as well. */

static inline bool cache_try_lock(struct cache *cache) {
    return !atomic_exchange_explicit(&cache->lock, 1, memory_order_acquire);
}

/* False: the cache is parked, or somebody has it for longer than a call takes. */
static inline bool cache_lock(struct cache *cache) {
    return __builtin_expect(cache_try_lock(cache), 1) || cache_lock_contended(cache);
}

/* To be called where the cache must be locked, by the caller or because the pool is. */
static inline void cache_check_locked(const struct cache *cache) {
#ifdef POOLCUDA_CHECK_LOCKS
    if (!atomic_load_explicit(&cache->lock, memory_order_relaxed))
        abort();
#else
    (void)cache;
#endif
}

static inline void cache_unlock(struct cache *cache) {
    atomic_store_explicit(&cache->lock, 0, memory_order_release);
}

static inline struct cache_site *cache_place_for(struct cache *cache, uintptr_t id) {
    return &cache->sites[hash_word(id) >> (64 - CACHE_SITE_BITS)];
}

/* Another number whenever more blocks may have become idle, for a cache that is alone. */
static inline uint64_t cache_stamp(const struct cache *cache) {
    return cache->stops + cache->sums[SUM_frees];
}

/* A context is one of a pool. */
static inline uintptr_t cache_key(const struct pool *pool, CUcontext handle) {
    return (uintptr_t)handle ^ (uintptr_t)pool;
}

static inline struct pool_block *cache_pop(struct cache_bin *bin) {
    struct pool_block *block = bin->head;
    bin->head = block->next;
    block->cached = false;
    return block;
}

/* Keeps the block, which is idle from now on, in a listed bin. */
static inline void cache_push_listed(struct cache_bin *bin, struct pool_block *block) {
    block->next = bin->head;
    block->state = BLOCK_IDLE;
    block->cached = true;
    bin->head = block;
}

/* The same in any bin of the cache. */
static inline void cache_push(struct cache *cache, struct cache_bin *bin,
                              struct pool_block *block) {
    cache_table_list(&cache->table, bin);
    cache_push_listed(bin, block);
}

/* To be called before what is held grows, and when the sums are merged: from their least idle
 * memory bounds.c knows what nobody needs, and between these calls least is idle when most is live.
 */
static inline void cache_note_taken(struct cache *cache) {
    uint64_t taken = cache->peak_live - cache->sums[SUM_held];
    if ((int64_t)(taken - cache->peak_taken) > 0)
        cache->peak_taken = taken;
}

static inline void cache_note_bin(const struct cache *cache, const struct cache_bin *bin,
                                  struct pool_block *block) {
    block->bin = (uint16_t)(bin - cache->table.bins);
}

/* A request of a site that has no bin for its size: a larger block, which goes live, if the site
 * has a bin for such blocks. NULL: there is none, or the policy has to choose. *none: no idle block
 * serves, if the cache is alone. Cache locked. */
static inline struct pool_block *cache_serve_larger(struct cache *cache, struct site *site,
                                                    size_t bytes, size_t size, bool *none) {
    cache_check_locked(cache);
    struct idle_store *store = &cache->context->store;
    size_t kept = store->count ? cache->pool->keeper->least(store, size) : SIZE_MAX;
    if (kept == SIZE_MAX && !cache_table_reaches(&cache->table, size)) {
        *none = true;
        return NULL;
    }
    return cache_choose_larger(cache, site, bytes, size, kept, none);
}

/* The calls. */

enum quick {
    QUICK_DONE,
    QUICK_NO,  /* nothing has happened: the call is not for the cache */
    QUICK_TRY, /* nothing has happened: the call may be for the whole form */
    QUICK_MISS /* of quick_malloc: nothing idle serves; cache_miss is next, the cache is locked */
};

/* The rest of quick_malloc where the site's bin is empty: a block of another cache or bin serves.
 * Never QUICK_TRY. Cache locked on entry, and on return with QUICK_MISS. */
enum quick cache_serve_other(struct cache *cache, struct cache_bin *bin, CUdeviceptr *pointer,
                             size_t bytes);
/* QUICK_TRY. The call counts once, whichever form serves it: where bins lie, the loader decides.
 * Kept out of the quick forms, whose registers it would need. Cache locked on entry, not on return.
 */
__attribute__((noinline)) enum quick cache_try_again(struct cache *cache);

/* So much more of what the cache counts, and its shard as well. */
__attribute__((always_inline)) static inline void quick_count(struct cache *cache,
                                                              enum stats_sum sum, uint64_t more) {
    cache->sums[sum] += more;
    stats_grow(&cache->shard->sums[sum], more);
}

__attribute__((always_inline)) static inline void quick_count_growth(struct cache *cache,
                                                                     size_t bytes, size_t size) {
    quick_count(cache, SUM_in_use, bytes);
    quick_count(cache, SUM_live, size);
    if ((int64_t)cache->sums[SUM_in_use] > (int64_t)cache->peak_in_use)
        cache->peak_in_use = cache->sums[SUM_in_use];
    if ((int64_t)cache->sums[SUM_live] > (int64_t)cache->peak_live)
        cache->peak_live = cache->sums[SUM_live];
}

/* Makes a block of that size live for a request of that many bytes. */
__attribute__((always_inline)) static inline void
quick_count_hit(struct cache *cache, const struct cache_bin *bin, size_t bytes, size_t size) {
    struct stats_site *site = bin->stats;
    stats_grow(&site->hits, 1);
    stats_grow(&site->allocated_bytes, bytes);
    stats_grow(&site->live_blocks, 1);
    stats_grow(&site->live_bytes, size);
    stats_raise(&site->peak_live_bytes, &site->live_bytes);
    quick_count(cache, SUM_hits, 1);
    quick_count_growth(cache, bytes, size);
}

__attribute__((always_inline)) static inline void quick_make_live(struct pool_block *block,
                                                                  size_t bytes) {
    block->state = BLOCK_LIVE;
    block->quick_freeable = true;
    block->taints = 0; /* they are 0 already: but so `state` to `taints` are one store */
    block->requested = bytes;
}

__attribute__((always_inline)) static inline void
quick_count_free(struct cache *cache, const struct cache_bin *bin, size_t bytes) {
    struct stats_site *site = bin->stats;
    size_t size = bin->size;
    stats_grow(&site->live_blocks, (uint64_t)-1);
    stats_grow(&site->live_bytes, 0 - size);
    __atomic_store_n(&cache->sums[SUM_frees], cache->sums[SUM_frees] + 1,
                     __ATOMIC_RELAXED); /* others look */
    stats_grow(&cache->shard->sums[SUM_frees], 1);
    quick_count(cache, SUM_in_use, 0 - bytes);
    quick_count(cache, SUM_live, 0 - size);
    if (__builtin_expect(size - bytes >= ROUND_SMALL, 0)) { /* else the block is no larger */
        cache->sums[SUM_over] -= size - round_physical(bytes);
        stats_site_serves(bin->site->stats, round_physical(bytes));
    }
}

/* The cache that may serve a call in the current context, locked; else NULL. */
__attribute__((always_inline)) static inline struct cache *quick_open(struct pool *pool,
                                                                      bool whole) {
    CUcontext handle = NULL;
    pool->driver->ctx_get_current(&handle); /* where it fails, no cache is there for NULL */
    uintptr_t key = cache_key(pool, handle);
    struct cache *cache = cache_mine.cache;
    if (__builtin_expect(cache_mine.key != key, 0) &&
        !(whole && (cache = cache_mine_among_others(key))))
        return NULL;
    if (__builtin_expect(!cache_try_lock(cache), 0) &&
        !(whole && (cache_lock(cache) || cache_lock_after_stop(pool, cache))))
        return NULL;
    if (__builtin_expect(cache->key == key && --cache->budget >= 0, 1) ||
        (whole && cache->key == key && cache_renew(cache)))
        return cache;
    cache_unlock(cache);
    return NULL;
}

/* cuMemAlloc_v2 for the site of that site_id(). */
__attribute__((always_inline)) static inline enum quick
quick_malloc(struct pool *pool, CUdeviceptr *pointer, size_t bytes, uintptr_t site, bool whole) {
    if (__builtin_expect(!pointer, 0))
        return QUICK_TRY;
    struct cache *cache = quick_open(pool, whole);
    if (__builtin_expect(!cache, 0))
        return QUICK_TRY;
    size_t size = round_physical(bytes);
    struct cache_bin *bin = NULL;
    if (!whole)
        bin = cache_table_find_near(&cache->table, site, size); /* the site is not 0 */
    else if (size)
        bin = cache_table_find(&cache->table, site, size);
    struct pool_block *block;
    if (__builtin_expect(bin && bin->head, 1)) {
        block = cache_pop(bin);
        __builtin_prefetch(bin->head, 1); /* another thread may have freed it */
        quick_make_live(block, bytes);
        *pointer = block->pointer;
        quick_count_hit(cache, bin, bytes, size);
    } else if (bin) {
        return cache_serve_other(cache, bin, pointer, bytes);
    } else if (whole && !cache->may_miss && (block = cache_serve_known(cache, site, bytes, size))) {
        *pointer = block->pointer;
    } else if (whole ? cache->may_miss
                     : cache->misses_near ||
                           (cache->may_miss &&
                            !cache_table_spills(cache_table_home(&cache->table, site, size)))) {
        return QUICK_MISS;
    } else if (!whole) {
        return cache_try_again(cache);
    } else {
        cache_unlock(cache);
        return QUICK_NO;
    }
    cache_unlock(cache);
    return QUICK_DONE;
}

/* If two threads free the same block at once, only one finds it quick_freeable. */
__attribute__((always_inline)) static inline bool quick_claim(struct pool_block *block) {
    return __atomic_exchange_n(&block->quick_freeable, false, __ATOMIC_ACQUIRE);
}

/* The bin for the block, listed: mostly the one that it was in last. */
__attribute__((always_inline)) static inline struct cache_bin *
quick_bin(struct cache *cache, struct pool_block *block, bool whole) {
    struct cache_table *table = &cache->table;
    struct cache_bin *bin =
        (struct cache_bin *)((char *)table->bins + (block->bin * sizeof *bin & table->mask));
    if (__builtin_expect(bin->listed == block->site && bin->size == block->size, 1))
        return bin;
    if (bin->site != block->site || bin->size != block->size) {
        if (whole)
            return cache_find_bin_for(cache, block);
        bin = cache_table_find_near(table, block->site->id, block->size);
        if (!bin || bin->site != block->site)
            return NULL;
        cache_note_bin(cache, bin, block);
    }
    cache_table_list(table, bin);
    return bin;
}

/* cuMemFree_v2. */
__attribute__((always_inline)) static inline enum quick
quick_free(struct pool *pool, CUdeviceptr pointer, bool whole) {
    struct cache *cache = quick_open(pool, whole);
    if (__builtin_expect(!cache, 0))
        return QUICK_TRY;
    struct pool_block *block = pointer_table_find(&cache->freeable, pointer);
    struct cache_bin *bin = NULL;
    if (__builtin_expect(block && block->context == cache->context && block != cache->sentinel, 1))
        bin = quick_bin(cache, block, whole);
    if (__builtin_expect(!bin || !quick_claim(block), 0)) {
        if (block && !whole)
            return cache_try_again(cache);
        cache_unlock(cache);
        return QUICK_NO;
    }
    size_t bytes = block->requested;
    block->requested = 0;
    if (__builtin_expect(cache->defers, 0)) {
        block->state = BLOCK_DEFERRED;
        block->freed_by = thread_marks.number;
        block->next = cache->deferred;
        cache->deferred = block;
        order_defers();
    } else {
        cache_push_listed(bin, block);
        order_owe_quickly();
    }
    quick_count_free(cache, bin, bytes);
    cache_unlock(cache);
    return QUICK_DONE;
}

#endif
