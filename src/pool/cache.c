#include "pool/cache.h"

#include "pool/internal.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    BINS = 256,
    BIN_BITS = 8,
    HANDLES = 8, /* contexts between which a thread may change without looking for its cache */
    HANDLE_BITS = 3,
    /* Calls served before one goes the long way, which settles the books, looks at the clock for
     * decay and at what else is due now and then. While a program is young, every second does. */
    BUDGET = 63,
    YOUNG_BUDGET = 1,
    YOUNG_CHANGES = 1024,
    SPINS = 100,
};

/* The idle blocks of one site and size. Unused while site is NULL.
 * Invariant: `head` are `count` blocks, linked through `next`, each with `size` and `site`. */
struct bin {
    uintptr_t id; /* of the site: site_id() */
    size_t size;
    struct pool_block *head;
    struct site *site;
    struct stats_site *figures; /* the site's own, if this cache is its `counting`; else ours */
    size_t count;
};

/* What a cache's calls have changed so far: all of it wraps as wanted. */
struct sums {
    uint64_t hits, frees;
    uint64_t in_use, live; /* bytes: requested, and of whole blocks */
};

/* Invariant: with `lock` free, handle is the context's if calls may be served, else NULL. Members
 * change under `lock`; those that say so only while all caches are stopped. */
struct cache {
    _Alignas(64) atomic_int lock;
    uint32_t budget;     /* calls that may still be served before one goes the long way */
    CUcontext handle;    /* while stopped */
    struct pool *pool;   /* while stopped */
    struct sums sums;    /* since it was opened */
    uint64_t peak_in_use, peak_live; /* the largest of sums since they were settled */
    struct stats_shard *shard;       /* where sums are told to readers of the stats page */
    struct context *context;         /* while stopped; NULL: unused */
    struct pool_block *anchor;       /* while stopped: the context's */
    struct pool_block *deferred;     /* freed, to be fenced: linked through `next` */
    bool may_free, defers;           /* while stopped */
    unsigned thread;                 /* whose it is, of CACHE_THREADS */
    size_t bins_apart;               /* that count in figures of our own */
    struct sums settled;             /* sums that the books have */
    struct cache *next_spare;
    struct bin bins[BINS];
};

/* The thread's caches by context. They are never given back to the system, since any thread may
 * have one here; `handle` tells whether it still serves. */
static _Thread_local struct cache *mine[HANDLES] __attribute__((tls_model("initial-exec")));
static _Thread_local unsigned own_number __attribute__((tls_model("initial-exec"))); /* from 1 */
static atomic_uint threads;

static atomic_flag spares_lock = ATOMIC_FLAG_INIT;
static struct cache *spares;

static uint64_t mix(uint64_t word) {
    return word * 0x9e3779b97f4a7c15u;
}

/* Sites with the same one would share bins, which costs nothing but the order of sites. */
static uintptr_t site_id(const struct call_site *key) {
    uintptr_t id = key->frames[0];
    for (uintptr_t i = 1; i < key->depth; i++)
        id = mix(id) ^ key->frames[i];
    return id;
}

static struct cache **place_of(CUcontext handle) {
    return &mine[mix((uintptr_t)handle) >> (64 - HANDLE_BITS)];
}

/* --- the lock --- */

static void pause_a_little(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* It is held for some dozens of instructions, or while the pool's lock is. */
__attribute__((noinline)) static void lock_contended(struct cache *cache) {
    do {
        for (int spin = 0; spin < SPINS && atomic_load_explicit(&cache->lock, memory_order_relaxed);
             spin++)
            pause_a_little();
        if (atomic_load_explicit(&cache->lock, memory_order_relaxed))
            syscall(SYS_sched_yield);
    } while (atomic_exchange_explicit(&cache->lock, 1, memory_order_acquire));
}

static inline void lock(struct cache *cache) {
    if (__builtin_expect(atomic_exchange_explicit(&cache->lock, 1, memory_order_acquire), 0))
        lock_contended(cache);
}

static inline void unlock(struct cache *cache) {
    atomic_store_explicit(&cache->lock, 0, memory_order_release);
}

/* --- bins --- */

static inline struct bin *bin_at(struct cache *cache, uintptr_t id, size_t size) {
    return &cache->bins[mix(id ^ size) >> (64 - BIN_BITS)];
}

static struct bin *other_of(struct cache *cache, struct bin *bin) {
    return &cache->bins[(bin - cache->bins) ^ 1];
}

/* Two places, of which the first is mostly the one. */
static inline struct bin *find_bin(struct cache *cache, uintptr_t id, size_t size) {
    struct bin *bin = bin_at(cache, id, size);
    if (__builtin_expect(bin->id == id && bin->size == size, 1))
        return bin;
    bin = other_of(cache, bin);
    return bin->id == id && bin->size == size ? bin : NULL;
}

static inline struct bin *bin_of(struct cache *cache, const struct pool_block *block) {
    struct bin *bin = &cache->bins[block->bin];
    if (bin->site != block->site || bin->size != block->size)
        bin = find_bin(cache, site_id(&block->site->key), block->size);
    return bin && bin->site == block->site ? bin : NULL;
}

static inline struct pool_block *pop(struct bin *bin) {
    struct pool_block *block = bin->head;
    bin->head = block->next;
    bin->count--;
    block->cached = false;
    return block;
}

/* The block is idle from now on. */
static inline void push(const struct cache *cache, struct bin *bin, struct pool_block *block) {
    block->next = bin->head;
    block->bin = (uint8_t)(bin - cache->bins);
    block->state = BLOCK_IDLE;
    block->cached = true;
    bin->head = block;
    bin->count++;
}

static inline void push_deferred(struct cache *cache, struct pool_block *block) {
    block->state = BLOCK_DEFERRED;
    block->next = cache->deferred;
    cache->deferred = block;
}

/* --- hits and frees --- */

/* For figures that one thread at a time writes and that others, of other processes mostly, read:
 * they want whole words, not order. */
static inline void add(_Atomic uint64_t *figure, uint64_t more) {
    *(uint64_t *)figure += more;
}

static inline void count_hit(struct cache *cache, const struct bin *bin, size_t bytes) {
    struct stats_site *site = bin->figures;
    add(&site->allocations, 1);
    add(&site->hits, 1);
    add(&site->allocated_bytes, bytes);
    add(&site->idle_blocks, (uint64_t)-1);
    add(&site->idle_bytes, 0 - bin->size);
    add(&site->live_blocks, 1);
    add(&site->live_bytes, bin->size);
    uint64_t live = stats_figure(&site->live_bytes);
    if ((int64_t)(live - stats_figure(&site->peak_live_bytes)) > 0)
        atomic_store_explicit(&site->peak_live_bytes, live, memory_order_relaxed);
    struct sums *sums = &cache->sums;
    sums->hits++;
    sums->in_use += bytes;
    sums->live += bin->size;
    if ((int64_t)(sums->in_use - cache->peak_in_use) > 0)
        cache->peak_in_use = sums->in_use;
    if ((int64_t)(sums->live - cache->peak_live) > 0)
        cache->peak_live = sums->live;
    struct stats_shard *shard = cache->shard;
    add(&shard->hits, 1);
    add(&shard->in_use, bytes);
    add(&shard->live, bin->size);
}

static inline void count_free(struct cache *cache, const struct bin *bin, size_t bytes) {
    struct stats_site *site = bin->figures;
    add(&site->idle_blocks, 1);
    add(&site->idle_bytes, bin->size);
    add(&site->live_blocks, (uint64_t)-1);
    add(&site->live_bytes, 0 - bin->size);
    cache->sums.frees++;
    cache->sums.in_use -= bytes;
    cache->sums.live -= bin->size;
    struct stats_shard *shard = cache->shard;
    add(&shard->frees, 1);
    add(&shard->in_use, 0 - bytes);
    add(&shard->live, 0 - bin->size);
}

/* The cache that may serve the call, locked; NULL: none. */
static inline struct cache *open_cache(const struct pool *pool, CUcontext handle) {
    struct cache *cache = *place_of(handle);
    if (!cache || !handle)
        return NULL;
    lock(cache);
    if (__builtin_expect(cache->handle == handle && cache->pool == pool && cache->budget &&
                             !atomic_load_explicit(&pool->captures, memory_order_relaxed),
                         1))
        return cache;
    unlock(cache);
    return NULL;
}

bool cache_malloc(struct pool *pool, CUcontext handle, const struct call_site *key, size_t bytes,
                  size_t size, CUdeviceptr *pointer) {
    struct cache *cache = open_cache(pool, handle);
    if (!cache)
        return false;
    struct bin *bin = find_bin(cache, site_id(key), size);
    if (!bin || !bin->head) {
        unlock(cache);
        return false;
    }
    cache->budget--;
    struct pool_block *block = pop(bin);
    block->state = BLOCK_LIVE;
    block->requested = bytes;
    atomic_store_explicit(&block->ready, 1, memory_order_relaxed);
    *pointer = block->pointer;
    count_hit(cache, bin, bytes);
    unlock(cache);
    return true;
}

/* Of two threads that free the same block at once, only one finds it ready. */
static inline bool claim(struct pool_block *block) {
    return atomic_load_explicit(&block->ready, memory_order_relaxed) &&
           atomic_exchange_explicit(&block->ready, 0, memory_order_acquire);
}

bool cache_free(struct pool *pool, CUcontext handle, CUdeviceptr pointer) {
    struct cache *cache = open_cache(pool, handle);
    if (!cache)
        return false;
    struct pool_block *block = pointer_map_find(&pool->map, pointer);
    struct bin *bin = NULL;
    if (cache->may_free && block && block->context == cache->context && block != cache->anchor)
        bin = bin_of(cache, block);
    if (!bin || !claim(block)) {
        unlock(cache);
        return false;
    }
    cache->budget--;
    size_t bytes = block->requested;
    block->requested = 0;
    if (cache->defers)
        push_deferred(cache, block);
    else
        push(cache, bin, block);
    count_free(cache, bin, bytes);
    unlock(cache);
    return true;
}

/* --- with all caches stopped --- */

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
    const struct sums *now = &cache->sums;
    struct sums *then = &cache->settled;
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
    device->in_use += in_use;
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
        lock(pool->caches[i]);
    for (int i = 0; i < pool->cache_count; i++)
        if (pool->caches[i]->context)
            settle(pool, pool->caches[i]);
}

/* A block that lives on when another is freed, so that this one is not the last: any will do, one
 * that lives long saves looking for another. */
static void find_anchor(struct pool *pool, struct context *context) {
    enum { TRIES = 64 };
    if (context->live_blocks < 2)
        return;
    for (int i = 0; i < TRIES && !context->anchor; i++) {
        struct pool_block *block = pointer_map_at(&pool->map, pool->anchor_cursor++);
        if (block && block->state == BLOCK_LIVE && block->context == context)
            context->anchor = block;
    }
}

/* What was counted apart goes to the site. */
static void settle_figures(struct bin *bin) {
    if (!bin->site || bin->figures == bin->site->stats)
        return;
    struct stats_site *own = bin->figures, *site = bin->site->stats;
    uint64_t before = stats_figure(&site->live_bytes);
#define SETTLE(figure)                                                                             \
    add(&site->figure, stats_figure(&own->figure));                                                \
    own->figure = 0
    SETTLE(allocations);
    SETTLE(hits);
    SETTLE(allocated_bytes);
    SETTLE(idle_blocks);
    SETTLE(idle_bytes);
    SETTLE(live_blocks);
    SETTLE(live_bytes);
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
    bool serves = pool->policy->interchangeable && !context->broken && !config->zero &&
                  !config->site_keep && config->max_idle.kind == LIMIT_AUTO &&
                  !atomic_load_explicit(&pool->down, memory_order_relaxed);
    bool young = context->device->changes < YOUNG_CHANGES;
    if (!cache->budget && cache->bins_apart)
        for (int i = 0; i < BINS; i++)
            settle_figures(&cache->bins[i]);
    cache->handle = serves ? context->handle : NULL;
    cache->budget = young ? YOUNG_BUDGET : BUDGET;
    cache->defers = config->free_mode == POOL_FREE_DEFER;
    cache->may_free =
        serves && !context->device->pressure && wait_is_skipped(pool, context);
    if (cache->may_free && !cache->defers && !context->anchor)
        find_anchor(pool, context);
    cache->anchor = cache->defers ? NULL : context->anchor;
    cache->may_free = cache->may_free && (cache->defers || context->anchor);
}

void cache_resume(struct pool *pool) {
    for (int i = 0; i < pool->cache_count; i++) {
        struct cache *cache = pool->caches[i];
        if (cache->context)
            permit(pool, cache);
        unlock(cache);
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
    lock(cache);
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
    struct cache **place = place_of(context->handle), *cache = *place;
    if (cache && cache->pool == pool && cache->context == context)
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
        *place = cache;
    return cache;
}

static void drain_bin(struct cache *cache, struct bin *bin) {
    struct pool_block *block;
    settle_figures(bin);
    while ((block = bin->head)) {
        pop(bin);
        cache->pool->policy->give(&cache->context->store, block);
    }
}

static void drain(struct cache *cache) {
    for (int i = 0; i < BINS; i++)
        if (cache->bins[i].site)
            drain_bin(cache, &cache->bins[i]);
}

static void close_bin(struct cache *cache, struct bin *bin) {
    if (bin->site && bin->figures != bin->site->stats) {
        free(bin->figures);
        cache->bins_apart--;
    }
    *bin = (struct bin){0};
}

/* A bin for the site's blocks of that size: a free one, or an empty one of others. NULL: there is
 * none, or no host memory. */
static struct bin *make_bin(struct cache *cache, struct site *site, size_t size) {
    uintptr_t id = site_id(&site->key);
    struct bin *bin = bin_at(cache, id, size);
    if (bin->head)
        bin = other_of(cache, bin);
    if (bin->head)
        return NULL;
    settle_figures(bin);
    close_bin(cache, bin);
    if (!site->counting)
        site->counting = cache;
    struct stats_site *figures =
        site->counting == cache ? site->stats : calloc(1, sizeof *figures);
    if (!figures)
        return NULL;
    cache->bins_apart += figures != site->stats;
    *bin = (struct bin){id, size, NULL, site, figures, 0};
    return bin;
}

static struct bin *bin_for(struct cache *cache, struct site *site, size_t size) {
    struct bin *bin = find_bin(cache, site_id(&site->key), size);
    return bin && bin->site ? (bin->site == site ? bin : NULL) : make_bin(cache, site, size);
}

bool cache_put(struct pool *pool, struct pool_block *block) {
    const struct pool_config *config = &pool->config;
    if (!pool->policy->interchangeable || config->site_keep || config->max_idle.kind != LIMIT_AUTO)
        return false;
    struct cache *cache = own_cache(pool, block->context);
    struct bin *bin = cache ? bin_for(cache, block->site, block->size) : NULL;
    if (bin)
        push(cache, bin, block);
    return bin != NULL;
}

/* The others' blocks come over as they are: the next requests are likely for these. */
static void move_all(struct bin *from, const struct cache *cache, struct bin *to) {
    while (from->head)
        push(cache, to, pop(from));
}

struct pool_block *cache_take(struct pool *pool, struct context *context, struct site *site,
                              size_t size) {
    uintptr_t id = site_id(&site->key);
    struct cache *own = pool->policy->interchangeable ? own_cache(pool, context) : NULL;
    if (!own)
        return NULL;
    struct bin *bin = find_bin(own, id, size);
    for (int i = 0; i < pool->cache_count && !(bin && bin->site == site && bin->head); i++) {
        struct cache *other = pool->caches[i];
        struct bin *from = other->context == context ? find_bin(other, id, size) : NULL;
        if (from && from->site == site && from->head && other != own &&
            (bin = bin_for(own, site, size)))
            move_all(from, own, bin);
    }
    return bin && bin->site == site && bin->head ? pop(bin) : NULL;
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
    for (int i = 0; i < BINS; i++) {
        struct bin *bin = &cache->bins[i];
        if (bin->site && bin->site->counting == cache)
            bin->site->counting = NULL;
        close_bin(cache, bin);
    }
    cache->handle = NULL;
    cache->context = NULL;
    cache->anchor = NULL;
    cache->deferred = NULL;
    cache->may_free = false;
    cache->sums = cache->settled = (struct sums){0};
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
        unlock(cache);
        spares_take();
        cache->next_spare = spares;
        spares = cache;
        spares_drop();
    }
    pool->cache_count = 0;
}

static bool bin_is_valid(const struct cache *cache, const struct bin *bin) {
    size_t count = 0;
    for (const struct pool_block *block = bin->head; block; block = block->next) {
        if (block->state != BLOCK_IDLE || !block->cached || block->site != bin->site ||
            block->size != bin->size || block->context != cache->context || block->ready)
            return false;
        count++;
    }
    return count == bin->count && (bin->site || !bin->head);
}

bool cache_is_valid(const struct pool *pool) {
    size_t kept = 0, marked = 0;
    const struct pool_block *block;
    struct books_place place = {0};
    for (int i = 0; i < pool->cache_count; i++) {
        const struct cache *cache = pool->caches[i];
        for (int j = 0; j < BINS; j++) {
            if (!bin_is_valid(cache, &cache->bins[j]))
                return false;
            kept += cache->bins[j].count;
        }
    }
    while ((block = books_next(pool, &place)))
        marked += block->cached;
    return kept == marked;
}
