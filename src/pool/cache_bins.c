/* The bins of threads' caches: where blocks are kept and found. */
#include "pool/cache_quick.h"
#include "pool/cache_stopped.h"
#include "sizes.h"

enum {
    FEW_CACHES = 4,
    /* Bins that are looked at in a cache for a block to spare: all of a thread's thousands might be
     * empty. */
    MOST_TRIED = 256,
    MOST_ALONG = 16, /* blocks that go over to another site at once */
};

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

/* Moves the blocks of other threads' caches over, all of a bin: those that follow are likely to be
 * asked for next. A cache that is in use is left alone: waiting for it, while its thread may be
 * waiting for ours, takes longer than what is done instead. */
static bool fetch(struct cache *cache, struct cache_bin *bin) {
    const struct pool *pool = cache->pool;
    for (int i = 0; i < pool->cache_count && !bin->head; i++) {
        struct cache *other = pool->caches[i];
        if (other == cache || other->context != cache->context || !cache_try_lock(other))
            continue;
        struct cache_bin *from = cache_table_find(&other->table, bin->id, bin->size);
        if (from && from->site == bin->site) {
            cache_table_list(&cache->table, bin);
            bin->head = from->head;
            from->head = NULL;
        }
        cache_unlock(other);
    }
    return bin->head != NULL;
}

/* The bin of the site's for blocks of that size, if it has one. */
static struct cache_bin *with_block(const struct cache_table *table, const struct site *site,
                                    size_t size) {
    struct cache_bin *bin = cache_table_find(table, site->id, size);
    return bin && bin->site == site && bin->head ? bin : NULL;
}

/* The bin whose blocks are the smallest sufficient ones, the site's own first; NULL: none, or
 * *many, so that it is not soon found. */
static struct cache_bin *best_bin(struct cache *cache, const struct site *site,
                                  const struct fit *fit, bool *many) {
    struct cache_walk walk = {
        .least = fit->size, .most = cache->pool->keeper->most(fit), .tries = MOST_TRIED};
    struct cache_bin *bin = cache_table_walk(&cache->table, &walk), *own = NULL;
    while (bin && bin->site != site && !fit->steal)
        bin = cache_table_walk(&cache->table, &walk);
    *many = !bin && !walk.tries;
    if (bin && bin->site != site && bin->size > fit->size)
        own = with_block(&cache->table, site, bin->size);
    return own ? own : bin;
}

/* With what is left of the bound on waste. */
static struct fit fit_now(const struct cache *cache, size_t bytes, size_t size) {
    struct fit fit = cache->fit;
    uint64_t grown = cache->sums[SUM_over];
    fit.bytes = bytes;
    fit.size = size;
    fit.surplus = (int64_t)(fit.surplus - grown) > 0 ? fit.surplus - grown : 0;
    return fit;
}

/* The bin with the smallest blocks that suffice, where any site's may serve: of two with blocks of
 * one size that is not the request's, the site's own. */
static struct cache_bin *smallest_bin(struct cache *cache, const struct cache_bin *bin) {
    struct cache_bin *found = cache_table_first(&cache->table, bin), *own = NULL;
    if (found && found->site != bin->site && found->size > bin->size)
        own = with_block(&cache->table, bin->site, found->size);
    return own ? own : found;
}

/* Looks first at what this thread has freed itself, whichever site had it: another thread's blocks
 * lie in another processor's cache. */
static struct cache_bin *find_other(struct cache *cache, struct cache_bin *bin, size_t bytes) {
    const struct keeper *keeper = cache->pool->keeper;
    struct idle_store *store = &cache->context->store;
    struct cache_bin *best = cache->fit.steal ? smallest_bin(cache, bin) : NULL;
    if (best && best->size == bin->size)
        return best;
    if (fetch(cache, bin))
        return bin;
    const struct fit fit = fit_now(cache, bytes, bin->size);
    bool many;
    if (!fit.steal)
        best = best_bin(cache, bin->site, &fit, &many);
    if (!best || (store->count && keeper->least(store, bin->size) < best->size))
        return NULL;
    return keeper->serves(best->head, &fit) ? best : NULL;
}

static void change_site(struct cache_bin *from, struct cache_bin *to, struct pool_block *block) {
    stats_grow(&from->stats->held_blocks, (uint64_t)-1);
    stats_grow(&from->stats->held_bytes, 0 - block->size);
    stats_grow(&to->stats->held_blocks, 1);
    stats_grow(&to->stats->held_bytes, block->size);
    block->site = to->site;
}

/* A thread that frees what others allocate, and allocates the same sizes, would take one of these
 * blocks after the other. So the more often it comes, the more go along with the first, unless they
 * are taken back. */
static void take_along(struct cache *cache, struct cache_bin *from, struct cache_bin *to) {
    for (unsigned i = 0; i < to->along && from->head; i++) {
        struct pool_block *block = cache_pop(from);
        change_site(from, to, block);
        cache_note_bin(cache, to, block);
        cache_push(cache, to, block);
    }
    to->along = to->along < MOST_ALONG / 2 ? 2 * to->along + 1 : MOST_ALONG;
    from->along = 0;
}

/* A block of `from` goes live for a request of the site that `to` is of. */
__attribute__((always_inline)) static inline struct pool_block *
serve_from(struct cache *cache, struct cache_bin *from, struct cache_bin *to, size_t bytes,
           size_t size) {
    struct pool_block *block = cache_pop(from);
    if (from->site != to->site) {
        change_site(from, to, block);
        cache->sums[SUM_stolen]++;
    }
    if (block->size == to->size)
        cache_note_bin(cache, to, block);
    quick_make_live(block, bytes);
    cache->sums[SUM_over] += block->size - size;
    quick_count_hit(cache, to, bytes, block->size);
    return block;
}

enum quick cache_serve_other(struct cache *cache, struct cache_bin *bin, CUdeviceptr *pointer,
                             size_t bytes) {
    cache_check_locked(cache);
    struct cache_bin *from = find_other(cache, bin, bytes);
    if (!from && cache->may_miss)
        return QUICK_MISS;
    if (from)
        *pointer = serve_from(cache, from, bin, bytes, bin->size)->pointer;
    if (from && from->site != bin->site && from->size == bin->size)
        take_along(cache, from, bin);
    cache_unlock(cache);
    return from ? QUICK_DONE : QUICK_NO;
}

enum quick cache_try_again(struct cache *cache) {
    cache_check_locked(cache);
    cache->budget++;
    cache_unlock(cache);
    return QUICK_TRY;
}

struct pool_block *cache_serve_larger(struct cache *cache, struct site *site, size_t bytes,
                                      size_t size, bool *none) {
    cache_check_locked(cache);
    const struct keeper *keeper = cache->pool->keeper;
    struct idle_store *store = &cache->context->store;
    size_t kept = store->count ? keeper->least(store, size) : SIZE_MAX;
    if (kept == SIZE_MAX && !cache_table_reaches(&cache->table, size)) {
        *none = true;
        return NULL;
    }
    const struct fit fit = fit_now(cache, bytes, size);
    bool many;
    struct cache_bin *from = best_bin(cache, site, &fit, &many), *to = NULL;
    bool serves = from && keeper->serves(from->head, &fit);
    *none = !many && !serves && kept > keeper->most(&fit);
    if (serves && from->size <= kept)
        to = cache_table_find(&cache->table, site->id, from->size);
    if (!to || to->site != site)
        return NULL;
    stats_site_serves(site->stats, size);
    return serve_from(cache, from, to, bytes, size);
}

struct pool_block *cache_serve_known(struct cache *cache, uintptr_t id, size_t bytes, size_t size) {
    cache_check_locked(cache);
    const struct cache_site *known = cache_place_for(cache, id);
    bool none;
    return known->site && known->id == id && size
               ? cache_serve_larger(cache, known->site, bytes, size, &none)
               : NULL;
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
        struct cache_walk walk = {.least = fit->size, .most = most, .tries = MOST_TRIED};
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
