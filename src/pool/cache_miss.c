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

/* The site whose misses the cache may count. NULL: it is not known here. */
static struct site *site_of(const struct cache *cache, const struct call_site *key) {
    uintptr_t id = site_id(key);
    struct site *site = cache->sites[cache_mix(id) % CACHE_SITES];
    return site && site_id(&site->key) == id && site->record->counting == cache ? site : NULL;
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

static struct cache *open_for_miss(const struct pool *pool, uintptr_t key) {
    struct cache *cache = cache_mine.key == key ? cache_mine.cache : NULL;
    if (!cache)
        return NULL;
    cache_lock(cache);
    if (cache->key == key && cache->nothing_idle && cache->spare && --cache->budget >= 0 &&
        !is_any_freed(pool))
        return cache;
    cache_unlock(cache);
    return NULL;
}

bool cache_miss(struct pool *pool, CUdeviceptr *pointer, size_t bytes, size_t size,
                const struct call_site *key, struct cache_late *late) {
    CUcontext handle = NULL;
    pool->driver->ctx_get_current(&handle);
    uintptr_t own = cache_key(pool, handle);
    struct cache *cache = open_for_miss(pool, own);
    late->context = NULL;
    if (!cache)
        return false;
    struct context *context = cache->context;
    struct site *site = site_of(cache, key);
    struct pool_block *block = site ? cache->spare : NULL;
    if (block)
        cache->spare = block->next;
    cache_unlock(cache);
    if (!block)
        return false;
    CUdeviceptr address;
    CUresult result = pool->driver->mem_alloc(&address, size);
    cache_lock(cache);
    if (result != CUDA_SUCCESS || cache->key != own) {
        block->next = cache->spare; /* given back when the cache is opened again, if it is closed */
        cache->spare = block;
        cache_unlock(cache);
        if (result == CUDA_SUCCESS)
            *late = (struct cache_late){context, address};
        return false;
    }
    *pointer = block->pointer = address;
    block->size = size;
    block->asked = bytes;
    block->context = context;
    block->site = site;
    block->pooled = block->releasable = false;
    quick_make_live(block, bytes);
    block->next = cache->fresh;
    cache->fresh = block;
    count_fresh(cache, site->stats, bytes, size);
    cache_unlock(cache);
    return true;
}

void cache_prepare_miss(struct pool *pool, struct context *context, struct site *site) {
    enum { SPARES = 32 };
    struct cache *cache = pool->policy->take_same ? cache_own(pool, context) : NULL;
    struct pool_block *block;
    if (!cache)
        return;
    if (!site->record->counting && stats_site_index(site->stats))
        site->record->counting = cache;
    cache->sites[cache_mix(site_id(&site->key)) % CACHE_SITES] = site;
    for (int i = cache->spare ? SPARES : 0; i < SPARES && (block = books_take_record(pool)); i++) {
        block->next = cache->spare;
        cache->spare = block;
    }
}
