/* Misses where nothing is idle: what the driver gives is counted in the thread's cache, and
 * recorded when the books are settled. */
#include "pool/quick.h"

/* Whether another thread has freed anything since the caches were stopped, or this one has. */
static bool is_any_freed(const struct pool *pool) {
    for (int i = 0; i < pool->cache_count; i++)
        if (__atomic_load_n(&pool->caches[i]->sums.frees, __ATOMIC_RELAXED) !=
            pool->caches[i]->settled.frees)
            return true;
    return false;
}

static struct cache_site *place_for(struct cache *cache, uintptr_t id) {
    return &cache->sites[cache_mix(id) >> (64 - CACHE_SITE_BITS)];
}

static void count_fresh(struct cache *cache, struct stats_site *site, size_t bytes, size_t size) {
    stats_grow(&site->misses, 1);
    stats_grow(&site->allocated_bytes, bytes);
    stats_grow(&site->held_blocks, 1);
    stats_grow(&site->held_bytes, size);
    stats_grow(&site->live_blocks, 1);
    stats_grow(&site->live_bytes, size);
    stats_raise(&site->peak_live_bytes, &site->live_bytes);
    cache->sums.fresh++;
    cache->sums.held += size;
    quick_count_growth(cache, bytes, size);
    stats_grow(&cache->shard->fresh, 1);
    stats_grow(&cache->shard->held, size);
}

/* A record, if the cache is locked and may miss; NULL: nothing has happened. */
static struct pool_block *take_spare(struct cache *cache, const struct pool *pool, uintptr_t key,
                                     struct site *site) {
    struct pool_block *block = cache->spare;
    if (cache->key != key || !cache->nothing_idle || !site || !block || is_any_freed(pool) ||
        (--cache->budget < 0 && !cache_renew(cache)))
        return NULL;
    cache->spare = block->next;
    return block;
}

bool cache_miss(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                const struct call_site *site) {
    uintptr_t key = cache_mine.key, id = site_id(site);
    struct cache *cache = cache_mine.cache;
    size_t size = round_physical(bytes);
    if (!cache_lock(cache))
        return false;
    struct context *context = cache->context;
    const struct cache_site *known = place_for(cache, id);
    struct site *own = known->id == id && bytes ? known->site : NULL;
    struct pool_block *block = take_spare(cache, pool, key, own);
    cache_unlock(cache);
    if (!block)
        return false;
    CUdeviceptr address;
    CUresult result = pool->driver->mem_alloc(&address, size);
    bool open = cache_lock(cache);
    /* The key alone may be that of a context which has taken the place of this one. */
    if (result != CUDA_SUCCESS || !open || cache->key != key || cache->context != context) {
        if (open)
            cache_unlock(cache);
        pool_miss_late(pool, block, context, result == CUDA_SUCCESS ? address : 0, bytes, site);
        *pointer = result == CUDA_SUCCESS ? address : *pointer;
        return result == CUDA_SUCCESS;
    }
    *pointer = block->pointer = address;
    block->size = size;
    block->asked = bytes;
    block->context = context;
    block->site = own;
    block->bin = 0;
    block->cached = block->pooled = block->releasable = false;
    quick_make_live(block, bytes);
    block->next = cache->fresh;
    cache->fresh = block;
    count_fresh(cache, own->stats, bytes, size);
    cache_unlock(cache);
    return true;
}

void cache_prepare_miss(struct pool *pool, struct context *context, struct site *site) {
    struct cache *cache = pool->policy->take_same ? cache_own(pool, context) : NULL;
    if (!cache)
        return;
    if (!site->record->counting && stats_site_index(site->stats))
        site->record->counting = cache;
    uintptr_t id = site_id(&site->key);
    if (site->record->counting == cache)
        *place_for(cache, id) = (struct cache_site){id, site};
    if (!cache->spare)
        cache->spare = books_take_records(pool);
}
