/* Hits and frees that need nothing but the calling thread's cache. Every instruction here is paid
 * for by each allocation of a program: see docs/performance.md. */
#include "pool/cache_parts.h"

#include "policy/round.h"

static inline void count_hit(struct cache *cache, const struct cache_bin *bin, size_t bytes,
                             size_t size) {
    struct stats_site *site = bin->figures;
    stats_grow(&site->hits, 1);
    stats_grow(&site->allocated_bytes, bytes);
    stats_grow(&site->live_blocks, 1);
    stats_grow(&site->live_bytes, size);
    if ((int64_t)(stats_figure(&site->live_bytes) - stats_figure(&site->peak_live_bytes)) > 0)
        atomic_store_explicit(&site->peak_live_bytes, stats_figure(&site->live_bytes),
                              memory_order_relaxed);
    struct cache_sums *sums = &cache->sums;
    sums->hits++;
    sums->in_use += bytes;
    sums->live += size;
    if ((int64_t)(sums->in_use - cache->peak_in_use) > 0)
        cache->peak_in_use = sums->in_use;
    if ((int64_t)(sums->live - cache->peak_live) > 0)
        cache->peak_live = sums->live;
    struct stats_shard *shard = cache->shard;
    stats_grow(&shard->hits, 1);
    stats_grow(&shard->in_use, bytes);
    stats_grow(&shard->live, size);
}

static inline void count_free(struct cache *cache, const struct cache_bin *bin, size_t bytes,
                              size_t size) {
    struct stats_site *site = bin->figures;
    stats_grow(&site->live_blocks, (uint64_t)-1);
    stats_grow(&site->live_bytes, 0 - size);
    cache->sums.frees++;
    cache->sums.in_use -= bytes;
    cache->sums.live -= size;
    struct stats_shard *shard = cache->shard;
    stats_grow(&shard->frees, 1);
    stats_grow(&shard->in_use, 0 - bytes);
    stats_grow(&shard->live, 0 - size);
}

/* The cache that may serve a call in the current context, locked; NULL: none. */
static inline struct cache *open_cache(const struct pool *pool) {
    CUcontext handle = NULL;
    if (pool->driver->ctx_get_current(&handle) != CUDA_SUCCESS || !handle)
        return NULL;
    uintptr_t key = cache_key(pool, handle);
    struct cache *cache = *cache_place(key);
    if (!cache)
        return NULL;
    cache_lock(cache);
    if (__builtin_expect(cache->key == key && --cache->budget >= 0, 1))
        return cache;
    cache_unlock(cache);
    return NULL;
}

bool pool_malloc_quick(struct pool *pool, CUdeviceptr *pointer, size_t bytes, uintptr_t site) {
    size_t size = round_physical(bytes);
    struct cache *cache = pointer ? open_cache(pool) : NULL;
    if (!cache)
        return false;
    struct cache_bin *bin = cache_find_bin(cache, site, size);
    if (!bin || !bin->head) {
        cache_unlock(cache);
        return false;
    }
    struct pool_block *block = cache_pop(bin);
    block->state = BLOCK_LIVE;
    block->ready = true;
    block->requested = bytes;
    *pointer = block->pointer;
    count_hit(cache, bin, bytes, size);
    cache_unlock(cache);
    return true;
}

/* Of two threads that free the same block at once, only one finds it ready. */
static inline bool claim(struct pool_block *block) {
    return __atomic_load_n(&block->ready, __ATOMIC_RELAXED) &&
           __atomic_exchange_n(&block->ready, false, __ATOMIC_ACQUIRE);
}

static inline struct cache_bin *bin_of(struct cache *cache, const struct pool_block *block) {
    struct cache_bin *bin = &cache->bins[block->bin];
    if (__builtin_expect(bin->site == block->site && bin->size == block->size, 1))
        return bin;
    bin = cache_find_bin(cache, site_id(&block->site->key), block->size);
    return bin && bin->site == block->site ? bin : NULL;
}

bool pool_free_quick(struct pool *pool, CUdeviceptr pointer) {
    struct cache *cache = open_cache(pool);
    if (!cache)
        return false;
    struct pool_block *block = pointer_map_find(&pool->map, pointer);
    struct cache_bin *bin = NULL;
    if (cache->may_free && block && block->context == cache->context && block != cache->anchor)
        bin = bin_of(cache, block);
    if (!bin || !claim(block)) {
        cache_unlock(cache);
        return false;
    }
    size_t bytes = block->requested;
    block->requested = 0;
    if (__builtin_expect(cache->defers, 0)) {
        block->state = BLOCK_DEFERRED;
        block->next = cache->deferred;
        cache->deferred = block;
    } else {
        cache_push(cache, bin, block);
    }
    count_free(cache, bin, bytes, block->size);
    cache_unlock(cache);
    return true;
}
