/* Threads' caches as the pool has them under its lock: which is whose, made when its thread needs
 * it and kept for another when its pool ends, and what is kept in its bins and found there.
 * Stopping them all is cache_stop.c's. */
#include "base/placed.h"
#include "pool/cache_stopped.h"
#include "thread_marks.h"

#include <stdlib.h>

enum {
    FEW_CACHES = 4,
    MINE_BITS = 3, /* contexts between which a thread changes without a search */
    MINE = 1 << MINE_BITS,
};

_Thread_local struct cache_mine cache_mine;
static _Thread_local struct cache_mine others[MINE] __attribute__((tls_model("initial-exec")));

static atomic_flag spares_lock = ATOMIC_FLAG_INIT;
static struct cache *_Atomic spares; /* of pools that have ended; else the lock is not taken */

/* Where the thread's cache of that key is or would be. */
static struct cache_mine *place_of(uintptr_t key) {
    return &others[hash_word(key) >> (64 - MINE_BITS)];
}

struct cache *cache_mine_among_others(uintptr_t key) {
    const struct cache_mine *place = place_of(key);
    if (place->key != key)
        return NULL;
    cache_mine = *place;
    return cache_mine.cache;
}

static void spares_take(void) {
    while (atomic_flag_test_and_set_explicit(&spares_lock, memory_order_acquire))
        futex_pause();
}

static void spares_drop(void) {
    atomic_flag_clear_explicit(&spares_lock, memory_order_release);
}

void cache_give_back(struct cache *cache) {
    spares_take();
    cache->next_spare = spares;
    spares = cache;
    spares_drop();
}

static struct cache *new_cache(void) {
    struct cache *cache = NULL;
    if (spares) {
        spares_take();
        cache = spares;
        spares = cache ? cache->next_spare : NULL;
        spares_drop();
    }
    if (cache)
        return cache;
    void *memory = calloc(1, sizeof *cache + _Alignof(struct cache));
    if (!memory)
        return NULL;
    cache =
        (struct cache *)(((uintptr_t)memory / _Alignof(struct cache) + 1) * _Alignof(struct cache));
    cache->table = cache_table_empty;
    return cache;
}

/* One that is in the pool's table and unused, or a new one. Lock held. */
static struct cache *take_unused_cache(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    for (int i = 0; i < pool->cache_count; i++)
        if (!pool->caches[i]->context)
            return pool->caches[i];
    struct cache *cache = pool->cache_count < CACHES ? new_cache() : NULL;
    if (!cache)
        return NULL;
    if (!cache_try_lock(cache))
        cache_lock_at_last(pool, cache);
    cache->pool = pool;
    cache->parked = true;
    pool->caches[pool->cache_count++] = cache;
    return cache;
}

static struct cache *find_cache(const struct pool *pool, const struct context *context,
                                unsigned thread) {
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->context == context && pool->caches[i]->thread == thread)
            return pool->caches[i];
    return NULL;
}

/* Lock held. */
__attribute__((noinline)) static struct cache *find_own(struct pool *pool, struct context *context,
                                                        uintptr_t key) {
    lock_check_held(LOCK_POOL);
    struct cache_mine *place = place_of(key);
    struct cache *cache = place->cache;
    if (cache && place->key == key && cache->pool == pool && cache->context == context)
        return cache;
    unsigned thread = 1 + (thread_number() - 1) % CACHE_THREADS;
    cache = find_cache(pool, context, thread);
    if (!cache && (cache = take_unused_cache(pool))) {
        struct stats_shard *shard = stats_shard_begin(context->device->stats);
        if (!shard)
            return NULL;
        cache->shard = shard;
        cache->context = context;
        cache->thread = thread;
    }
    if (cache)
        *place = cache_mine = (struct cache_mine){key, cache};
    return cache;
}

struct cache *cache_own(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    uintptr_t key = cache_key(pool, context->handle);
    struct cache *cache = cache_mine.cache;
    bool last = cache && cache_mine.key == key && cache->pool == pool && cache->context == context;
    return last ? cache : find_own(pool, context, key);
}

struct pool_block *cache_give_spares(const struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct cache *own = cache_mine.cache;
    if (!own || own->pool != pool)
        return NULL;
    struct pool_block *spare = own->spare;
    own->spare = NULL;
    return spare;
}

/* Whether cached blocks save anything: where frees go the long way anyway, more caches would only
 * be more to look through. */
static bool is_worth_it(const struct pool *pool, const struct context *context) {
    return pool->cache_count <= FEW_CACHES || context->frees_quickly;
}

struct cache_site *cache_place_for(struct cache *cache, uintptr_t id) {
    cache_check_locked(cache);
    return &cache->sites[hash_word(id) >> (64 - CACHE_SITE_BITS)];
}

PLACED bool cache_may_have(struct cache *cache, size_t size, size_t *kept) {
    cache_check_locked(cache);
    struct idle_store *store = &cache->context->store;
    *kept = store->count ? cache->pool->keeper->least(store, size) : SIZE_MAX;
    return *kept != SIZE_MAX || cache_table_reaches(&cache->table, size);
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

/* The site's bin for blocks of just that size. */
static struct cache_bin *bin_for(struct cache *cache, struct site *site, size_t size) {
    struct cache_bin *bin = cache_table_find(&cache->table, site->id, size);
    return bin && bin->site == site ? bin : cache_make_bin(cache, site, size);
}

static void keep(struct cache *cache, struct cache_bin *bin, struct pool_block *block) {
    cache_note_bin(cache, bin, block);
    cache_push(cache, bin, block);
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
    struct cache_bin *bin = cache ? bin_for(cache, block->site, block->size) : NULL;
    if (bin)
        keep(cache, bin, block);
    return bin != NULL;
}

/* Moves all of a bin's blocks: the next requests are likely for these. */
static void move_all(struct cache_bin *from, struct cache *cache, struct cache_bin *to) {
    while (from->head)
        keep(cache, to, cache_pop(from));
}

/* Moves all of the site's blocks of that size from the idle store to its bin. */
static struct cache_bin *refill(struct pool *pool, struct cache *cache, struct site *site,
                                size_t size) {
    struct idle_store *store = &cache->context->store;
    struct pool_block *block = pool->keeper->take_same(store, site, size);
    struct cache_bin *bin = block ? bin_for(cache, site, size) : NULL;
    if (block && !bin)
        pool->keeper->give(store, block);
    for (; bin && block; block = pool->keeper->take_same(store, site, size))
        keep(cache, bin, block);
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
