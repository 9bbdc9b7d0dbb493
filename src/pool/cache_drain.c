/* Brings the blocks of threads' caches back into the store, bin by bin or all at once. */
#include "pool/cache_stopped.h"

void cache_offer_largest(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    const struct pool_block *kept = context->keeper->largest(&context->store);
    size_t least = kept ? kept->size : 0;
    bool alike;
    for (int i = 0; i < pool->cache_count; i++) {
        struct cache *cache = pool->caches[i];
        struct cache_bin *bin;
        while (cache->context == context && (bin = cache_table_largest(&cache->table, &alike)) &&
               bin->size >= least) {
            least = bin->size;
            cache_empty_bin(cache, bin);
        }
    }
}

void cache_drain(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->context == context)
            cache_drain_one(pool->caches[i]);
}
