/* A block of another bin, site or cache serves a request whose own bin has none. */
#include "pool/cache_parts.h"

enum { MOST_ALONG = 16 /* blocks that go over to another site at once */ };

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

/* The bin with the smallest blocks that suffice, where any site's may serve: of two with blocks of
 * one size that is not the request's, the site's own. class: the size's. */
static struct cache_bin *smallest_bin(struct cache *cache, const struct site *site, size_t size,
                                      unsigned class) {
    struct cache_bin *found = cache_table_first(&cache->table, class, size), *own = NULL;
    if (found && found->site != site && found->size > size)
        own = with_block(&cache->table, site, found->size);
    return own ? own : found;
}

/* Where only the site's own may. NULL: there is none, or *many, so that it is not soon found. */
static struct cache_bin *own_bin(struct cache *cache, const struct site *site,
                                 const struct fit *fit, bool *many) {
    struct cache_walk walk = {
        .least = fit->size, .most = cache->pool->keeper->most(fit), .tries = CACHE_MOST_TRIED};
    struct cache_bin *bin = cache_table_walk(&cache->table, &walk);
    while (bin && bin->site != site)
        bin = cache_table_walk(&cache->table, &walk);
    *many = !bin && !walk.tries;
    return bin;
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

/* Looks first at what this thread has freed itself, whichever site had it: another thread's blocks
 * lie in another processor's cache. */
static struct cache_bin *find_other(struct cache *cache, struct cache_bin *bin, size_t bytes) {
    const struct keeper *keeper = cache->pool->keeper;
    struct idle_store *store = &cache->context->store;
    struct cache_bin *best =
        cache->fit.steal ? smallest_bin(cache, bin->site, bin->size, bin->class) : NULL;
    if (best && best->size == bin->size)
        return best;
    if (fetch(cache, bin))
        return bin;
    const struct fit fit = fit_now(cache, bytes, bin->size);
    bool many;
    if (!fit.steal)
        best = own_bin(cache, bin->site, &fit, &many);
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
    cache_make_live(block, bytes);
    cache->sums[SUM_over] += block->size - size;
    cache_count_hit(cache, to, bytes, block->size);
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
                                      size_t size, size_t kept, bool *none) {
    cache_check_locked(cache);
    const struct keeper *keeper = cache->pool->keeper;
    const struct fit fit = fit_now(cache, bytes, size);
    bool many = false;
    struct cache_bin *from = fit.steal ? smallest_bin(cache, site, size, cache_class(size))
                                       : own_bin(cache, site, &fit, &many);
    struct cache_bin *to = NULL;
    bool serves = from && keeper->serves(from->head, &fit);
    *none = !many && !serves && kept > keeper->most(&fit);
    if (serves && from->size <= kept)
        to = from->site == site ? from : cache_table_find(&cache->table, site->id, from->size);
    if (!to || to->site != site)
        return NULL;
    stats_site_serves(site->stats, size);
    return serve_from(cache, from, to, bytes, size);
}

struct pool_block *cache_serve_known(struct cache *cache, uintptr_t id, size_t bytes, size_t size) {
    cache_check_locked(cache);
    const struct cache_site *known = cache_place_for(cache, id);
    size_t kept;
    bool none;
    return known->site && known->id == id && size && cache_may_have(cache, size, &kept)
               ? cache_serve_larger(cache, known->site, bytes, size, kept, &none)
               : NULL;
}
