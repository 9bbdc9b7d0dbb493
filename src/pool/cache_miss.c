/* Misses where nothing idle serves: what the driver gives is counted in the thread's cache, and
 * recorded when caches are merged. */
#include "pool/cache_quick.h"

/* Whether a thread has freed anything since its cache was stopped. */
static bool has_freed(const struct cache *cache) {
    return __atomic_load_n(&cache->sums[SUM_frees], __ATOMIC_RELAXED) != 0;
}

static bool is_any_freed(const struct pool *pool, const struct cache *own) {
    bool freed = has_freed(own);
    for (int i = 0; i < pool->cache_count && !freed; i++)
        freed = has_freed(pool->caches[i]);
    return freed;
}

/* Whether an earlier call has found out that nothing idle serves, and nothing has become idle
 * since. */
static bool is_known_to_miss(const struct cache *cache, const struct cache_site *known,
                             uintptr_t site, size_t bytes, size_t size) {
    return known->id == site && known->bytes == bytes && known->stamp == cache_stamp(cache) &&
           size <= cache->may_grow;
}

/* Whether nothing idle serves, and nothing need be given back or asked before memory grows. If
 * something does serve, *served is that block, live, where the cache can tell. */
__attribute__((noinline)) static bool may_miss(const struct pool *pool, struct cache *cache,
                                               struct cache_site *known, uintptr_t site,
                                               size_t bytes, struct pool_block **served) {
    size_t size = round_physical(bytes);
    if (!known->site || known->id != site || !size)
        return false;
    if (!cache->nothing_idle || is_any_freed(pool, cache)) {
        bool none;
        *served = cache_serve_larger(cache, known->site, bytes, size, &none);
        if (*served || !none || !cache->alone || size > cache->may_grow)
            return false;
    }
    /* The keeper learns of a size larger than all before, and each site counts in one cache. */
    if (size > known->site->largest_missed || known->site->record->counting != cache)
        return false;
    __atomic_store_n(&known->site->growing, 0, __ATOMIC_RELAXED);
    if (cache->alone) {
        known->bytes = bytes;
        known->stamp = cache_stamp(cache);
        cache->may_grow -= size < cache->may_grow ? size : cache->may_grow;
    }
    return true;
}

static void count_fresh(struct cache *cache, struct stats_site *site, size_t bytes, size_t size) {
    if (!cache->nothing_idle)
        cache_note_taken(cache); /* before what is held grows */
    stats_grow(&site->misses, 1);
    stats_grow(&site->allocated_bytes, bytes);
    stats_grow(&site->held_blocks, 1);
    stats_grow(&site->held_bytes, size);
    stats_grow(&site->live_blocks, 1);
    stats_grow(&site->live_bytes, size);
    stats_raise(&site->peak_live_bytes, &site->live_bytes);
    quick_count(cache, SUM_fresh, 1);
    quick_count(cache, SUM_held, size);
    quick_count_growth(cache, bytes, size);
}

bool cache_miss(struct pool *pool, CUdeviceptr *pointer, size_t bytes, uintptr_t site) {
    lock_check_none();
    struct cache *cache = cache_mine.cache;
    struct context *context = cache->context;
    struct cache_site *known = cache_place_for(cache, site);
    struct pool_block *block = cache->spare, *served = NULL;
    size_t size = round_physical(bytes);
    bool known_to_miss = is_known_to_miss(cache, known, site, bytes, size);
    if (!(known_to_miss || may_miss(pool, cache, known, site, bytes, &served)) || !block) {
        if (served)
            *pointer = served->pointer;
        cache_unlock(cache);
        return served;
    }
    struct site *own = known->site;
    cache->spare = block->next;
    cache->asking++;
    if (known_to_miss)
        cache->may_grow -= size;
    cache_unlock(cache);
    CUdeviceptr address;
    CUresult result = pool->driver->mem_alloc(&address, size);
    bool open = cache_lock(cache);
    if (__builtin_expect(
            result != CUDA_SUCCESS || !open || cache->context != context || !cache->key, 0)) {
        if (open)
            cache_unlock(cache);
        take_late(pool, block, context, own, result == CUDA_SUCCESS ? address : 0, bytes);
        pool_lock(pool);
        cache->asking--;
        pool_unlock(pool);
        *pointer = result == CUDA_SUCCESS ? address : *pointer;
        return result == CUDA_SUCCESS;
    }
    cache->asking--;
    *pointer = block->pointer = address;
    block->size = size;
    block->asked = bytes;
    block->context = context;
    block->site = own;
    block->bin = 0;
    block->cached = block->in_driver_pool = block->releasable = false;
    quick_make_live(block, bytes);
    block->next = cache->fresh;
    cache->fresh = block;
    count_fresh(cache, own->stats, bytes, size);
    cache_unlock(cache);
    return true;
}
