/* The bins of threads' caches: where blocks are kept and found. */
#include "policy/round.h"
#include "pool/quick.h"

#include <stdlib.h>

/* Where frees go the long way anyway, more caches than these would only be more to look through. */
enum { FEW_CACHES = 4 };

enum { MOST_ALONG = 16 };
static bool is_worth_it(const struct pool *pool, const struct context *context) {
    return pool->cache_count <= FEW_CACHES || context->frees_quickly;
}

struct cache_bin *cache_find_bin_for(struct cache *cache, struct pool_block *block, size_t size) {
    struct cache_bin *bin = NULL;
    if (size == block->size)
        bin = cache_find_bin(cache, site_id(&block->site->key), size);
    for (unsigned i = 0; i < cache->used_count && size != block->size && !bin; i++) {
        bin = &cache->bins[cache->used[i]];
        if (bin->site != block->site || bin->size != (size | 1) || bin->block_size != block->size)
            bin = NULL;
    }
    if (!bin || bin->site != block->site)
        return NULL;
    cache_note_bin(cache, bin, block);
    return bin;
}

/* The blocks of other threads' caches come over as they are: those that follow are likely to be
 * asked for next. One that is in use is left alone: to wait for it, while its thread may be waiting
 * for ours, takes longer than what is done instead. */
static bool fetch(struct cache *cache, struct cache_bin *bin) {
    const struct pool *pool = cache->pool;
    for (int i = 0; i < pool->cache_count && !bin->head; i++) {
        struct cache *other = pool->caches[i];
        if (other == cache || other->context != cache->context || !cache_try_lock(other))
            continue;
        struct cache_bin *from = cache_find_bin(other, bin->id, bin->size);
        if (from && from->site == bin->site) {
            bin->head = from->head;
            from->head = NULL;
        }
        cache_unlock(other);
    }
    return bin->head != NULL;
}

/* The bin whose blocks are the smallest sufficient ones, the site's own first; NULL: none. */
static struct cache_bin *best_bin(struct cache *cache, const struct site *site, size_t size) {
    struct cache_bin *best = NULL;
    for (unsigned i = 0; i < cache->used_count; i++) {
        struct cache_bin *bin = &cache->bins[cache->used[i]];
        if (!bin->head || bin->block_size < size || (!cache->fit.steal && bin->site != site))
            continue;
        if (!best || bin->block_size < best->block_size ||
            (bin->block_size == best->block_size && bin->site == site))
            best = bin;
    }
    return best;
}

/* What is left of the bound on waste. */
static uint64_t surplus(const struct cache *cache) {
    uint64_t grown = cache->sums.over - cache->settled.over;
    return (int64_t)(cache->fit.surplus - grown) > 0 ? cache->fit.surplus - grown : 0;
}

/* First what this thread has freed itself, whichever site had it: another thread's blocks lie in
 * another processor's cache. */
static struct cache_bin *find_other(struct cache *cache, struct cache_bin *bin, size_t bytes,
                                    size_t size) {
    struct fit fit = cache->fit;
    struct store *store = &cache->context->store;
    struct cache_bin *best = best_bin(cache, bin->site, size);
    if ((!best || best->block_size > size) && fetch(cache, bin))
        return bin;
    if (!best || (best->block_size > size && store->count &&
                  cache->pool->policy->least(store, size) < best->block_size))
        return NULL;
    fit.bytes = bytes;
    fit.size = size;
    fit.surplus = surplus(cache);
    return cache->pool->policy->serves(best->head, &fit) ? best : NULL;
}

static void change_site(struct cache_bin *from, struct cache_bin *to, struct pool_block *block) {
    stats_grow(&from->figures->held_blocks, (uint64_t)-1);
    stats_grow(&from->figures->held_bytes, 0 - block->size);
    stats_grow(&to->figures->held_blocks, 1);
    stats_grow(&to->figures->held_bytes, block->size);
    block->site = to->site;
}

/* A thread that frees what others allocate, and allocates the same sizes, would take one of these
 * after the other: the more often it comes, the more go with the first, unless they are taken back.
 */
static void take_along(const struct cache *cache, struct cache_bin *from, struct cache_bin *to) {
    for (unsigned i = 0; i < to->taken_along && from->head; i++) {
        struct pool_block *block = cache_pop(from);
        change_site(from, to, block);
        cache_note_bin(cache, to, block);
        cache_push(to, block);
    }
    to->taken_along = to->taken_along < MOST_ALONG / 2 ? 2 * to->taken_along + 1 : MOST_ALONG;
    from->taken_along = 0;
}

struct pool_block *cache_serve_other(struct cache *cache, struct cache_bin *bin, size_t bytes,
                                     size_t size) {
    struct cache_bin *from = find_other(cache, bin, bytes, size);
    if (!from)
        return NULL;
    struct pool_block *block = cache_pop(from);
    if (from->site != bin->site) {
        change_site(from, bin, block);
        cache->sums.stolen++;
        if (block->size == size)
            take_along(cache, from, bin);
    }
    if (block->size == size)
        cache_note_bin(cache, bin, block);
    quick_make_live(block, bytes);
    cache->sums.over += block->size - size;
    quick_count_hit(cache, bin, bytes, block->size);
    return block;
}

/* What was counted apart goes to the site. */
void cache_settle_figures(struct cache_bin *bin) {
    if (bin->figures == bin->site->stats)
        return;
    struct stats_site *own = bin->figures, *site = bin->site->stats;
    uint64_t before = stats_figure(&site->live_bytes);
#define SETTLE(figure)                                                                             \
    stats_grow(&site->figure, stats_figure(&own->figure));                                         \
    own->figure = 0
    SETTLE(hits);
    SETTLE(allocated_bytes);
    SETTLE(live_blocks);
    SETTLE(live_bytes);
    SETTLE(held_blocks);
    SETTLE(held_bytes);
#undef SETTLE
    uint64_t peak = before + stats_figure(&own->peak_live_bytes);
    own->peak_live_bytes = 0;
    if ((int64_t)(peak - stats_figure(&site->peak_live_bytes)) > 0)
        site->peak_live_bytes = peak;
}

void cache_close_bin(struct cache *cache, struct cache_bin *bin) {
    size_t number = (size_t)(bin - cache->bins);
    if (bin->figures != bin->site->stats) {
        free(bin->figures);
        cache->bins_apart--;
    }
    unsigned place = cache->used_count - 1;
    while (cache->used[place] != number)
        place--;
    cache->used[place] = cache->used[--cache->used_count];
    *bin = (struct cache_bin){0};
}

/* Whether nobody has used the bin's blocks since this was last asked. */
static bool is_at_rest(struct cache_bin *bin) {
    uint32_t hits = (uint32_t)stats_figure(&bin->figures->hits);
    bool rests = hits == bin->seen_hits;
    bin->seen_hits = hits;
    return rests;
}

static void drain_bin(struct cache *cache, struct cache_bin *bin) {
    struct pool_block *block;
    cache_settle_figures(bin);
    while ((block = bin->head)) {
        cache_pop(bin);
        cache->pool->policy->give(&cache->context->store, block);
    }
}

void cache_drain_one(struct cache *cache) {
    struct cache_bin *bin;
    for (CACHE_EACH_USED(bin, cache)) {
        drain_bin(cache, bin);
        if (is_at_rest(bin))
            cache_close_bin(cache, bin);
    }
}

/* A place for a bin, which may hold an empty one of others. NULL: there is none. Oversize bins,
 * which no request looks for, may lie anywhere. */
static struct cache_bin *find_place(struct cache *cache, uintptr_t id, size_t size, bool oversize) {
    struct cache_bin *bin = cache_bin_at(cache, id, size);
    if (!oversize)
        return !bin->head ? bin : cache_bin_beside(cache, bin);
    for (int i = 0; i < CACHE_BINS / 2 && bin->site; i++)
        bin = &cache->bins[(size_t)(bin - cache->bins + 2) % CACHE_BINS];
    return bin;
}

/* A bin for the site's blocks of that size which serve requests of `size`. NULL: there is no place
 * for it, or no host memory. */
static struct cache_bin *make_bin(struct cache *cache, struct site *site, size_t size,
                                  size_t block_size) {
    uintptr_t id = site_id(&site->key);
    struct cache_bin *bin = find_place(cache, id, size, size != block_size);
    if (bin->head || (bin->site && !is_at_rest(bin)))
        return NULL;
    if (bin->site) {
        cache_settle_figures(bin);
        cache_close_bin(cache, bin);
    }
    struct cache **counting = &site->record->counting;
    if (!*counting && stats_site_index(site->stats)) /* else others count in it as well */
        *counting = cache;
    struct stats_site *figures = *counting == cache ? site->stats : calloc(1, sizeof *figures);
    if (!figures)
        return NULL;
    cache->bins_apart += figures != site->stats;
    *bin = (struct cache_bin){.id = id,
                              .size = size | (size != block_size),
                              .block_size = block_size,
                              .over = block_size - size,
                              .site = site,
                              .figures = figures};
    cache->used[cache->used_count++] = (uint8_t)(bin - cache->bins);
    return bin;
}

bool cache_put(struct pool *pool, struct pool_block *block, size_t size) {
    const struct pool_config *config = &pool->config;
    if (!pool->policy->take_same || config->site_keep || config->max_idle.kind != LIMIT_AUTO ||
        block->size % ROUND_SMALL) /* made in want of memory, and not rounded */
        return false;
    if (!is_worth_it(pool, block->context))
        return false;
    struct cache *cache = cache_own(pool, block->context);
    struct cache_bin *bin = cache ? cache_find_bin_for(cache, block, size) : NULL;
    if (cache && !bin && (bin = make_bin(cache, block->site, size, block->size)))
        cache_note_bin(cache, bin, block);
    if (bin)
        cache_push(bin, block);
    return bin != NULL;
}

/* The site's bin for blocks of just that size. */
static struct cache_bin *bin_for(struct cache *cache, struct site *site, size_t size) {
    struct cache_bin *bin = cache_find_bin(cache, site_id(&site->key), size);
    return bin && bin->site == site ? bin : make_bin(cache, site, size, size);
}

/* The others' blocks come over as they are: the next requests are likely for these. */
static void move_all(struct cache_bin *from, const struct cache *cache, struct cache_bin *to) {
    while (from->head) {
        struct pool_block *block = cache_pop(from);
        cache_note_bin(cache, to, block);
        cache_push(to, block);
    }
}

/* The same with those in the store. */
static struct cache_bin *refill(struct pool *pool, struct cache *cache, struct site *site,
                                size_t size) {
    struct store *store = &cache->context->store;
    struct pool_block *block = pool->policy->take_same(store, site, size);
    struct cache_bin *bin = block ? bin_for(cache, site, size) : NULL;
    if (block && !bin)
        pool->policy->give(store, block);
    for (; bin && block; block = pool->policy->take_same(store, site, size)) {
        cache_note_bin(cache, bin, block);
        cache_push(bin, block);
    }
    return bin;
}

static bool has_block(const struct cache_bin *bin, const struct site *site) {
    return bin && bin->site == site && bin->head;
}

struct pool_block *cache_take(struct pool *pool, struct context *context, struct site *site,
                              size_t size) {
    uintptr_t id = site_id(&site->key);
    struct cache *own = pool->policy->take_same ? cache_own(pool, context) : NULL;
    if (!own)
        return NULL;
    struct cache_bin *bin = cache_find_bin(own, id, size);
    for (int i = 0; i < pool->cache_count && !has_block(bin, site); i++) {
        struct cache *other = pool->caches[i];
        struct cache_bin *from = other != own && other->used_count && other->context == context
                                     ? cache_find_bin(other, id, size)
                                     : NULL;
        if (has_block(from, site) && (bin = bin_for(own, site, size)))
            move_all(from, own, bin);
    }
    if (!has_block(bin, site) && is_worth_it(pool, context))
        bin = refill(pool, own, site, size);
    return has_block(bin, site) ? cache_pop(bin) : NULL;
}

static bool is_better(const struct cache_bin *bin, const struct cache_bin *best, size_t size) {
    return bin->head && bin->block_size >= size && (!best || bin->block_size < best->block_size);
}

void cache_offer(struct pool *pool, struct context *context, const struct site *site, size_t size) {
    /* A thread that goes on using its blocks would be short of the one that is taken, take one from
     * another in turn, and so on for ever: rather is there one block more. */
    const struct cache *mine = pool->policy->take_same ? cache_own(pool, context) : NULL;
    struct cache_bin *bin, *own = NULL, *best = NULL;
    for (int i = 0; i < pool->cache_count; i++) {
        struct cache *cache = pool->caches[i];
        if (!cache->used_count || cache->context != context)
            continue;
        for (CACHE_EACH_USED(bin, cache)) {
            if (cache != mine && !is_at_rest(bin))
                continue;
            if (is_better(bin, best, size))
                best = bin;
            if (bin->site == site && is_better(bin, own, size))
                own = bin;
        }
    }
    if (own && own != best)
        pool->policy->give(&context->store, cache_pop(own));
    if (best)
        pool->policy->give(&context->store, cache_pop(best));
}

void cache_drain(struct pool *pool, struct context *context) {
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->context == context)
            cache_drain_one(pool->caches[i]);
}
