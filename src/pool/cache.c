#include "policy/round.h"
#include "pool/quick.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    /* Calls served before the clock is looked at: if it is some time since the last, a call goes the
     * long way, which settles the books and sees to decay and to what else is due now and then.
     * While a program is young, every second does. */
    BUDGET = 255,
    RENEW_NS = 10 * 1000 * 1000,
    YOUNG_BUDGET = 1,
    YOUNG_CHANGES = 1024,
    SPINS = 100,
    MINE_BITS = 3, /* contexts between which a thread changes without a search */
    MINE = 1 << MINE_BITS,
};

_Thread_local struct cache_mine cache_mine;
static _Thread_local struct cache_mine others[MINE] __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned own_number __attribute__((tls_model("initial-exec"))); /* from 1 */
static atomic_uint threads;

static atomic_flag spares_lock = ATOMIC_FLAG_INIT;
static struct cache *spares;

/* Where the thread's cache of that key is or would be. */
static struct cache_mine *place_of(uintptr_t key) {
    return &others[cache_mix(key) >> (64 - MINE_BITS)];
}

struct cache *cache_mine_among_others(uintptr_t key) {
    const struct cache_mine *place = place_of(key);
    if (place->key != key)
        return NULL;
    cache_mine = *place;
    return cache_mine.cache;
}

static void pause_a_little(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* It is held for some dozens of instructions, or while the pool's lock is. */
void cache_lock_contended(struct cache *cache) {
    do {
        for (int spin = 0; spin < SPINS && atomic_load_explicit(&cache->lock, memory_order_relaxed);
             spin++)
            pause_a_little();
        if (atomic_load_explicit(&cache->lock, memory_order_relaxed))
            syscall(SYS_sched_yield);
    } while (atomic_exchange_explicit(&cache->lock, 1, memory_order_acquire));
}

bool cache_renew(struct cache *cache) {
    struct timespec time;
    if (cache->young)
        return false;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    uint64_t now = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    if (now - cache->renewed_ns >= RENEW_NS) {
        cache->renewed_ns = now;
        return false;
    }
    cache->budget = BUDGET;
    return true;
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

static void change_site(struct cache *cache, struct cache_bin *from, struct cache_bin *to,
                        struct pool_block *block) {
    stats_grow(&from->figures->held_blocks, (uint64_t)-1);
    stats_grow(&from->figures->held_bytes, 0 - block->size);
    stats_grow(&to->figures->held_blocks, 1);
    stats_grow(&to->figures->held_bytes, block->size);
    block->site = to->site;
    cache->sums.stolen++;
}

struct pool_block *cache_serve_other(struct cache *cache, struct cache_bin *bin, size_t bytes,
                                     size_t size) {
    struct cache_bin *from = find_other(cache, bin, bytes, size);
    if (!from)
        return NULL;
    struct pool_block *block = cache_pop(from);
    if (from->site != bin->site)
        change_site(cache, from, bin, block);
    cache_note_bin(cache, bin, block);
    quick_make_live(block, bytes);
    cache->sums.over += block->size - size;
    quick_count_hit(cache, bin, bytes, block->size);
    return block;
}

/* The largest that a figure of the books has been since it was settled. */
static uint64_t highest(uint64_t before, uint64_t settled, uint64_t peak) {
    return before + (peak - settled);
}

static void raise(uint64_t *peak, uint64_t value) {
    if (value > *peak)
        *peak = value;
}

/* With several threads the peaks are at most what each of them had at its highest, all at once. */
static void settle_peaks(struct pool *pool, const struct cache *cache) {
    struct device *device = cache->context->device;
    uint64_t more = cache->peak_live - cache->settled.live;
    raise(&device->peak_in_use,
          highest(device->in_use, cache->settled.in_use, cache->peak_in_use));
    raise(&device->peak_live, device->live + more);
    raise(&pool->peak_live, pool->in_use + pool->waste + more);
    if (device->idle - more < device->least_idle)
        device->least_idle = device->idle - more;
}

static void settle_frees(struct pool *pool, struct cache *cache, uint64_t frees) {
    struct pool_block *block, *next;
    if (!frees)
        return;
    if (!cache->defers) {
        wait_owe_more(pool, frees);
        return;
    }
    for (block = cache->deferred; block; block = next) {
        next = block->next;
        fence_defer(pool, block);
    }
    cache->deferred = NULL;
}

/* Brings what has happened in the cache into the books. */
static void settle(struct pool *pool, struct cache *cache) {
    const struct cache_sums *now = &cache->sums;
    struct cache_sums *then = &cache->settled;
    uint64_t hits = now->hits - then->hits, frees = now->frees - then->frees;
    uint64_t in_use = now->in_use - then->in_use, live = now->live - then->live;
    if (!hits && !frees)
        return;
    struct device *device = cache->context->device;
    settle_peaks(pool, cache);
    settle_frees(pool, cache, frees);
    pool->in_use += in_use;
    pool->waste += live - in_use;
    pool->idle -= live;
    pool->live_blocks += hits - frees;
    pool->idle_blocks += frees - hits;
    cache->context->live_blocks += hits - frees;
    if (now->stolen != then->stolen)
        stats_add(STATS_malloc_stolen, now->stolen - then->stolen);
    device->in_use += in_use;
    device->over_size += now->over - then->over;
    device->live += live;
    device->idle -= live;
    device->live_blocks += hits - frees;
    device->idle_blocks += frees - hits;
    device->allocations += hits;
    device->hits += hits;
    device->frees += frees;
    device->changes += hits + frees;
    pool->cached_in_use += in_use; /* what the page has from the shards */
    device->cached_in_use += in_use;
    pool->cached_live += live;
    device->cached_live += live;
    pool->cached_blocks += hits - frees;
    device->cached_hits += hits;
    *then = *now;
    cache->peak_in_use = now->in_use;
    cache->peak_live = now->live;
}

void cache_stop(struct pool *pool) {
    for (int i = 0; i < pool->cache_count; i++)
        cache_lock(pool->caches[i]);
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->context)
            settle(pool, pool->caches[i]);
}

/* A block that lives on when another is freed, so that this one is not the last: any will do, one
 * that lives long saves looking for another. */
static void find_anchor(struct pool *pool, struct context *context) {
    enum { TRIES = 64 };
    for (int i = 0; i < TRIES && context->live_blocks && !context->anchor; i++) {
        struct pool_block *block = pointer_map_at(&pool->map, pool->anchor_cursor++);
        if (block && block->state == BLOCK_LIVE && block->context == context)
            context->anchor = block;
    }
}

/* All bins with a site; the one at hand may be closed. */
#define EACH_USED(bin, cache)                                                                      \
    unsigned left_ = (cache)->used_count;                                                          \
    left_-- > 0 && ((bin) = &(cache)->bins[(cache)->used[left_]], true);

/* What was counted apart goes to the site. */
static void settle_figures(struct cache_bin *bin) {
    if (bin->figures == bin->site->stats)
        return;
    struct stats_site *own = bin->figures, *site = bin->site->stats;
    uint64_t before = stats_figure(&site->live_bytes);
#define SETTLE(figure)                                                                             \
    stats_grow(&site->figure, stats_figure(&own->figure));                                                \
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

/* What the cache may do until it is stopped again. */
static void permit(struct pool *pool, struct cache *cache) {
    struct context *context = cache->context;
    const struct pool_config *config = &pool->config;
    bool serves = pool->policy->take_same && !context->broken && !config->zero &&
                  !config->site_keep && config->max_idle.kind == LIMIT_AUTO &&
                  !atomic_load(&pool->captures) && !atomic_load(&pool->down);
    cache->young = context->device->changes < YOUNG_CHANGES;
    struct cache_bin *bin;
    if (cache->budget <= 0 && cache->bins_apart)
        for (EACH_USED(bin, cache))
            settle_figures(bin);
    cache->key = serves ? cache_key(pool, context->handle) : 0;
    cache->budget = cache->young ? YOUNG_BUDGET : BUDGET;
    cache->defers = config->free_mode == POOL_FREE_DEFER;
    bool may_free = serves && !context->device->pressure && wait_is_skipped(pool, context);
    if (may_free && !cache->defers && !context->anchor)
        find_anchor(pool, context);
    cache->fit = pool_fit(pool, context, 0, 0);
    cache->anchor = cache->defers ? NULL : context->anchor;
    cache->freeable = may_free && (cache->defers || context->anchor) ? pool->map.table
                                                                     : pointer_table_empty;
}

void cache_resume(struct pool *pool) {
    for (int i = 0; i < pool->cache_count; i++) {
        struct cache *cache = pool->caches[i];
        if (cache->context)
            permit(pool, cache);
        cache_unlock(cache);
    }
}

/* --- caches --- */

static void spares_take(void) {
    while (atomic_flag_test_and_set_explicit(&spares_lock, memory_order_acquire))
        pause_a_little();
}

static void spares_drop(void) {
    atomic_flag_clear_explicit(&spares_lock, memory_order_release);
}

static struct cache *new_cache(void) {
    spares_take();
    struct cache *cache = spares;
    if (cache)
        spares = cache->next_spare;
    spares_drop();
    if (cache)
        return cache;
    void *memory = calloc(1, sizeof *cache + _Alignof(struct cache));
    return memory ? (struct cache *)(((uintptr_t)memory / _Alignof(struct cache) + 1) *
                                     _Alignof(struct cache))
                  : NULL;
}

/* One that is in the pool's table and unused, or a new one. Locked, as all are. */
static struct cache *free_cache(struct pool *pool) {
    for (int i = 0; i < pool->cache_count; i++)
        if (!pool->caches[i]->context)
            return pool->caches[i];
    struct cache *cache = pool->cache_count < CACHES ? new_cache() : NULL;
    if (!cache)
        return NULL;
    cache_lock(cache);
    cache->pool = pool;
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

/* The calling thread's cache for the context, made if need be. NULL: it has none. */
static struct cache *own_cache(struct pool *pool, struct context *context) {
    uintptr_t key = cache_key(pool, context->handle);
    struct cache_mine *place = place_of(key);
    struct cache *cache = place->cache;
    if (cache && place->key == key && cache->pool == pool && cache->context == context)
        return cache;
    if (!own_number)
        own_number = 1 + atomic_fetch_add(&threads, 1) % CACHE_THREADS;
    cache = find_cache(pool, context, own_number);
    if (!cache && (cache = free_cache(pool))) {
        struct stats_shard *shard = stats_shard_begin(context->device->stats);
        if (!shard)
            return NULL;
        cache->shard = shard;
        cache->context = context;
        cache->thread = own_number;
    }
    if (cache)
        *place = cache_mine = (struct cache_mine){key, cache};
    return cache;
}

static void drain_bin(struct cache *cache, struct cache_bin *bin) {
    struct pool_block *block;
    settle_figures(bin);
    while ((block = bin->head)) {
        cache_pop(bin);
        cache->pool->policy->give(&cache->context->store, block);
    }
}

static void drain(struct cache *cache) {
    struct cache_bin *bin;
    for (EACH_USED(bin, cache))
        drain_bin(cache, bin);
}

/* It is empty. */
static void close_bin(struct cache *cache, struct cache_bin *bin) {
    size_t number = (size_t)(bin - cache->bins);
    if (bin->figures != bin->site->stats) {
        settle_figures(bin);
        free(bin->figures);
        cache->bins_apart--;
    }
    unsigned place = 0;
    while (cache->used[place] != number)
        place++;
    cache->used[place] = cache->used[--cache->used_count];
    *bin = (struct cache_bin){0};
}

/* A place for a bin, which may hold an empty one of others. NULL: there is none. Oversize bins, which
 * no request looks for, may lie anywhere. */
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
    if (bin->head)
        return NULL;
    if (bin->site)
        close_bin(cache, bin);
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
    struct cache *cache = own_cache(pool, block->context);
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
    struct cache *own = pool->policy->take_same ? own_cache(pool, context) : NULL;
    if (!own)
        return NULL;
    struct cache_bin *bin = cache_find_bin(own, id, size);
    for (int i = 0; i < pool->cache_count && !has_block(bin, site); i++) {
        struct cache *other = pool->caches[i];
        struct cache_bin *from =
            other != own && other->context == context ? cache_find_bin(other, id, size) : NULL;
        if (has_block(from, site) && (bin = bin_for(own, site, size)))
            move_all(from, own, bin);
    }
    if (!has_block(bin, site))
        bin = refill(pool, own, site, size);
    return has_block(bin, site) ? cache_pop(bin) : NULL;
}

/* Whether the bin's own thread has no use for its blocks just now. One that goes on using them would
 * be short of the block that is taken, take one from another in turn, and so on for ever: rather is
 * there one block more. */
static bool is_at_rest(struct cache_bin *bin) {
    uint64_t hits = stats_figure(&bin->figures->hits);
    bool rests = hits == bin->seen_hits;
    bin->seen_hits = hits;
    return rests;
}

static bool is_better(const struct cache_bin *bin, const struct cache_bin *best, size_t size) {
    return bin->head && bin->block_size >= size && (!best || bin->block_size < best->block_size);
}

void cache_offer(struct pool *pool, struct context *context, const struct site *site, size_t size) {
    struct cache_bin *bin, *own = NULL, *best = NULL;
    for (int i = 0; i < pool->cache_count; i++) {
        struct cache *cache = pool->caches[i];
        if (cache->context != context)
            continue;
        for (EACH_USED(bin, cache)) {
            if (cache->thread != own_number && !is_at_rest(bin))
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
            drain(pool->caches[i]);
}

/* The page keeps the figures that came from the shard. */
static void end_shard(struct pool *pool, struct cache *cache) {
    struct device *device = cache->context->device;
    pool->cached_in_use -= cache->sums.in_use;
    device->cached_in_use -= cache->sums.in_use;
    pool->cached_live -= cache->sums.live;
    device->cached_live -= cache->sums.live;
    pool->cached_blocks -= cache->sums.hits - cache->sums.frees;
    device->cached_hits -= cache->sums.hits;
    stats_shard_end(cache->shard);
    books_publish(pool, device);
}

/* Its blocks have been drained. */
static void close_cache(struct cache *cache) {
    struct cache_bin *bin;
    for (EACH_USED(bin, cache)) {
        if (bin->site->record->counting == cache)
            bin->site->record->counting = NULL;
        close_bin(cache, bin);
    }
    cache->key = 0;
    cache->context = NULL;
    cache->anchor = NULL;
    cache->deferred = NULL;
    cache->freeable = pointer_table_empty;
    cache->sums = cache->settled = (struct cache_sums){0};
    cache->peak_in_use = cache->peak_live = 0;
}

void cache_close(struct pool *pool, struct context *context) {
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->context == context) {
            drain(pool->caches[i]);
            end_shard(pool, pool->caches[i]);
            close_cache(pool->caches[i]);
        }
}

void cache_forget(struct pool *pool) {
    for (int i = 0; i < pool->cache_count; i++) {
        struct cache *cache = pool->caches[i];
        if (cache->context)
            close_cache(cache);
        cache->pool = NULL;
        cache_unlock(cache);
        spares_take();
        cache->next_spare = spares;
        spares = cache;
        spares_drop();
    }
    pool->cache_count = 0;
}

/* Counts the bin's blocks. */
static bool bin_is_valid(const struct cache *cache, const struct cache_bin *bin, size_t *count) {
    for (const struct pool_block *block = bin->head; block; block = block->next) {
        if (block->state != BLOCK_IDLE || !block->cached || block->site != bin->site ||
            block->size != bin->block_size || block->context != cache->context || block->ready)
            return false;
        ++*count;
    }
    return bin->site ? bin->over == bin->block_size - (bin->size & ~(size_t)1) : !bin->head;
}

bool cache_is_valid(const struct pool *pool) {
    size_t kept = 0, marked = 0;
    const struct pool_block *block;
    struct books_place place = {0};
    for (int i = 0; i < pool->cache_count; i++) {
        const struct cache *cache = pool->caches[i];
        for (int j = 0; j < CACHE_BINS; j++)
            if (!bin_is_valid(cache, &cache->bins[j], &kept))
                return false;
    }
    while ((block = books_next(pool, &place)))
        marked += block->cached;
    return kept == marked;
}
