/* The bins of threads' caches are made, emptied into the store, one by one or all at once, and go
 * once nobody uses them. */
#include "base/by_pointer.h"
#include "pool/cache_stopped.h"

#include <stdlib.h>

/* Ends what the bin has beside its blocks. Returns false: the bin does not stay. */
static bool end_bin(struct cache_bin *bin, struct cache *cache) {
    if (bin->stats != bin->site->stats) {
        free(bin->stats);
        cache->bins_apart--;
    }
    return false;
}

BY_POINTER static bool ends(struct cache_bin *bin, void *cache) {
    return end_bin(bin, cache);
}

void cache_close_bins(struct cache *cache) {
    lock_check_held(LOCK_POOL);
    cache_table_filter(&cache->table, ends, cache);
}

bool cache_bin_rests(struct cache_bin *bin) {
    lock_check_held(LOCK_POOL);
    uint32_t hits = (uint32_t)stats_read(&bin->stats->hits);
    bool rests = hits == bin->seen_hits;
    bin->seen_hits = hits;
    return rests;
}

void cache_empty_bin(struct cache *cache, struct cache_bin *bin) {
    lock_check_held(LOCK_POOL);
    while (bin->head)
        cache->pool->keeper->give(&cache->context->store, cache_pop(bin));
}

BY_POINTER static bool stays_when_drained(struct cache_bin *bin, void *data) {
    struct cache *cache = data;
    cache_merge_counts(bin);
    cache_empty_bin(cache, bin);
    return !cache_bin_rests(bin) || end_bin(bin, cache);
}

void cache_drain_one(struct cache *cache) {
    lock_check_held(LOCK_POOL);
    cache_table_filter(&cache->table, stays_when_drained, cache);
}

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

BY_POINTER static bool has_block_or_is_used(struct cache_bin *bin, void *cache) {
    return bin->head || stays_when_drained(bin, cache);
}

BY_POINTER static bool is_used(struct cache_bin *bin, void *cache) {
    return !cache_bin_rests(bin) || stays_when_drained(bin, cache);
}

/* Called before a bin is added: a quarter of the places at most are to be used, and half of the
 * largest table's, so that few bins lie outside of their pair. Before the table grows, bins that
 * are empty and unused go; once it can grow no more, so do those with blocks that nobody asks for,
 * after so many calls that each could have been used. */
static void make_room(struct cache *cache) {
    struct cache_table *table = &cache->table;
    bool may_grow = cache_table_may_grow(table);
    if (table->used_count < table->count / (may_grow ? 4 : 2))
        return;
    if (may_grow) {
        if (++cache->bins_asked < table->count / 16)
            return;
        cache->bins_asked = 0;
        cache_table_filter(table, has_block_or_is_used, cache);
        if (table->used_count >= table->count / 16 * 3)
            cache_table_grow(table);
    } else if (cache->served - cache->swept >= (uint64_t)2 * table->used_count) {
        cache->swept = cache->served;
        cache_table_filter(table, is_used, cache);
    }
}

struct cache_bin *cache_make_bin(struct cache *cache, struct site *site, size_t size) {
    lock_check_held(LOCK_POOL);
    struct cache **counting = &site->record->counting;
    if (!*counting && stats_site_index(site->stats)) /* else others count in it as well */
        *counting = cache;
    make_room(cache);
    struct stats_site *stats = *counting == cache ? site->stats : calloc(1, sizeof *stats);
    const struct cache_bin bin = {.id = site->id, .size = size, .site = site, .stats = stats};
    struct cache_bin *made = stats ? cache_table_add(&cache->table, &bin) : NULL;
    if (made)
        cache->bins_apart += stats != site->stats;
    else if (stats != site->stats)
        free(stats);
    return made;
}
