/* The bins of threads' caches: where blocks are kept and found. */
#include "base/sizes.h"
#include "pool/cache_quick.h"
#include "pool/cache_stopped.h"

enum { FEW_CACHES = 4 };

/* Whether cached blocks save anything: where frees go the long way anyway, more caches would only
 * be more to look through. */
static bool is_worth_it(const struct pool *pool, const struct context *context) {
    return pool->cache_count <= FEW_CACHES || context->frees_quickly;
}

struct cache_bin *cache_find_bin_for(struct cache *cache, struct pool_block *block) {
    cache_check_locked(cache);
    struct cache_bin *bin = cache_table_find(&cache->table, block->site->id, block->size);
    if (!bin || bin->site != block->site)
        return NULL;
    cache_note_bin(cache, bin, block);
    cache_table_list(&cache->table, bin);
    return bin;
}

void cache_merge_counts_of(const struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct cache *own = cache_mine.cache;
    struct cache_bin *bin = NULL;
    if (own && own->pool == pool && own->context == block->context && own->bins_apart)
        bin = cache_find_bin_for(own, block);
    if (bin)
        cache_merge_counts(bin);
}

bool cache_put(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    const struct pool_config *config = &pool->config;
    if (!block->context->keeper->take_same || bounds_ask_at_frees(config) ||
        block->size % ROUND_SMALL) /* allocated while memory was short, and not rounded */
        return false;
    if (!is_worth_it(pool, block->context))
        return false;
    struct cache *cache = cache_own(pool, block->context);
    struct cache_bin *bin = cache ? cache_find_bin_for(cache, block) : NULL;
    if (cache && !bin && (bin = cache_make_bin(cache, block->site, block->size)))
        cache_note_bin(cache, bin, block);
    if (bin)
        cache_push(cache, bin, block);
    return bin != NULL;
}

/* The site's bin for blocks of just that size. */
static struct cache_bin *bin_for(struct cache *cache, struct site *site, size_t size) {
    struct cache_bin *bin = cache_table_find(&cache->table, site->id, size);
    return bin && bin->site == site ? bin : cache_make_bin(cache, site, size);
}

/* Moves all of a bin's blocks: the next requests are likely for these. */
static void move_all(struct cache_bin *from, struct cache *cache, struct cache_bin *to) {
    while (from->head) {
        struct pool_block *block = cache_pop(from);
        cache_note_bin(cache, to, block);
        cache_push(cache, to, block);
    }
}

/* Moves all of the site's blocks of that size from the idle store to its bin. */
static struct cache_bin *refill(struct pool *pool, struct cache *cache, struct site *site,
                                size_t size) {
    struct idle_store *store = &cache->context->store;
    struct pool_block *block = pool->keeper->take_same(store, site, size);
    struct cache_bin *bin = block ? bin_for(cache, site, size) : NULL;
    if (block && !bin)
        pool->keeper->give(store, block);
    for (; bin && block; block = pool->keeper->take_same(store, site, size)) {
        cache_note_bin(cache, bin, block);
        cache_push(cache, bin, block);
    }
    return bin;
}

static bool has_block(const struct cache_bin *bin, const struct site *site) {
    return bin && bin->site == site && bin->head;
}

struct pool_block *cache_take(struct pool *pool, struct context *context, struct site *site,
                              size_t size) {
    lock_check_held(LOCK_POOL);
    uintptr_t id = site->id;
    struct cache *own = context->keeper->take_same ? cache_own(pool, context) : NULL;
    if (!own)
        return NULL;
    struct cache_bin *bin = cache_table_find(&own->table, id, size);
    for (int i = 0; i < pool->cache_count && !has_block(bin, site); i++) {
        struct cache *other = pool->caches[i];
        struct cache_bin *from = other != own && other->context == context
                                     ? cache_table_find(&other->table, id, size)
                                     : NULL;
        if (has_block(from, site) && (bin = bin_for(own, site, size)))
            move_all(from, own, bin);
    }
    if (!has_block(bin, site) && is_worth_it(pool, context))
        bin = refill(pool, own, site, size);
    return has_block(bin, site) ? cache_pop(bin) : NULL;
}

void cache_offer(struct pool *pool, struct context *context, const struct site *site,
                 const struct fit *fit) {
    lock_check_held(LOCK_POOL);
    struct cache_bin *own = NULL, *best = NULL;
    if (!context->keeper->take_same)
        return;
    /* No block is taken from a thread that goes on using its own: it would be short of one, take
     * one from another in turn, and so on for ever. Allocating one block more costs less. */
    const struct cache *mine = cache_own(pool, context);
    size_t most = 0;
    for (int i = 0; i < pool->cache_count; i++) {
        struct cache *cache = pool->caches[i];
        if (cache->context != context || !cache_table_reaches(&cache->table, fit->size))
            continue;
        most = most ? most : pool->keeper->most(fit);
        struct cache_walk walk = {.least = fit->size, .most = most, .tries = CACHE_MOST_TRIED};
        struct cache_bin *bin;
        while ((bin = cache_table_walk(&cache->table, &walk))) {
            bool owned = bin->site == site;
            if ((cache != mine && !cache_bin_rests(bin)) || !(owned || fit->steal))
                continue;
            if (!best || bin->size < most)
                best = bin;
            if (owned && (!own || bin->size < own->size))
                own = bin;
            walk.most = most = bin->size; /* a larger one would waste more */
        }
    }
    if (own && own != best && own->size == most)
        pool->keeper->give(&context->store, cache_pop(own));
    if (best)
        pool->keeper->give(&context->store, cache_pop(best));
}
