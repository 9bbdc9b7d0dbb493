/* The end of threads' caches: with their context or their pool. */
#include "pool/cache_stopped.h"

#include <string.h>

/* The cache's blocks have been drained. */
static void close_cache(struct cache *cache) {
    struct site_record *record;
    cache_close_bins(cache);
    for (record = cache->pool->site_records; record; record = record->by_key.next)
        if (record->counting == cache)
            record->counting = NULL;
    cache->key = 0;
    cache->context = NULL;
    cache->sentinel = NULL;
    cache->deferred = NULL;
    cache->freeable = pointer_table_empty;
    memset(cache->sites, 0, sizeof cache->sites);
    memset(cache->sums, 0, sizeof cache->sums);
    cache->peak_in_use = cache->peak_live = cache->peak_taken = 0;
    cache->served = cache->swept = 0;
    cache->last_event = NULL;
    cache->waited = 0;
}

static void give_back_spares(struct pool *pool, struct cache *cache) {
    struct pool_block *block;
    while ((block = cache->spare)) {
        cache->spare = block->next;
        ledger_recycle(pool, block);
    }
}

bool cache_is_asking(const struct pool *pool) {
    lock_check_held(LOCK_POOL);
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->asking)
            return true;
    return false;
}

void cache_close(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->context == context) {
            cache_drain_one(pool->caches[i]);
            give_back_spares(pool, pool->caches[i]);
            stats_shard_end(pool->caches[i]->shard, context->device->stats);
            close_cache(pool->caches[i]);
        }
}

void cache_forget(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    for (int i = 0; i < pool->cache_count; i++) {
        struct cache *cache = pool->caches[i];
        if (cache->context)
            close_cache(cache);
        cache->fresh = cache->spare = NULL;
        cache->asking = 0;
        cache->pool = NULL;
        cache->parked = false;
        cache_unlock(cache);
        cache_give_back(cache);
    }
    pool->cache_count = pool->active_count = 0;
}
