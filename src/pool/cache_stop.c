/* Stopping threads' caches and letting them go on: what the pool's lock calls as it is taken and
 * given back, what each cache may do in between, and when a cache's call has to go the long way. */
#include "base/by_pointer.h"
#include "pool/cache_stopped.h"

#include <string.h>

enum {
    /* Calls served before the clock is looked at. If no thread's call has gone the long way for
     * some time, this one does: it merges the caches' sums and sees to decay and to what else is
     * due now and then. A thread that others forestall has its turn as well, as it may be the only
     * one that frees: after an interval for each active thread, 8 at the least, so that all such
     * turns together are no more than the shared ones. While a program is young, every third such
     * call goes. The budget and the call that looks make a prime number, so that the turn falls on
     * frees as well as on allocations, whatever the program's rhythm. */
    BUDGET = 250,
    RENEW_NS = 50 * 1000 * 1000,
    OWN_RENEWS = 8,
    /* Where there are more threads than processors, stopping all caches takes until each thread
     * that was interrupted with its cache locked has run again, while ever more others stand still.
     * So a call goes the long way only after STOP_SHARE times what was waited for such threads
     * since the last one, within a limit. A cache that serves nothing is not parked at once: its
     * thread has probably just not had its turn, and coming back would stop all others. */
    STOP_SHARE = 20,
    MOST_RENEW_NS = 10 * RENEW_NS,
    CROWDED_NS = 2 * RENEW_NS,
    PARK_NS = 100 * 1000 * 1000,
    YOUNG_BUDGET = 2,
    YOUNG_CHANGES = 1024,
};

static void wake_waiters(struct pool *pool) {
    if (atomic_load_explicit(&pool->resume_waiters, memory_order_relaxed))
        futex_change(&pool->resumes);
}

/* Derives the interval from what all threads have waited since the last time. */
static void set_interval(struct pool *pool) {
    uint64_t waited = atomic_exchange_explicit(&pool->waited_ns, 0, memory_order_relaxed);
    uint64_t every = RENEW_NS + STOP_SHARE * waited;
    atomic_store_explicit(&pool->renew_ns, every < MOST_RENEW_NS ? every : MOST_RENEW_NS,
                          memory_order_relaxed);
}

bool cache_renew(struct cache *cache) {
    cache_check_locked(cache);
    if (cache->young)
        return false;
    uint64_t now = pool_now(cache->pool);
    uint64_t every = atomic_load_explicit(&cache->pool->renew_ns, memory_order_relaxed),
             turns = (uint64_t)cache->pool->active_count;
    _Atomic uint64_t *shared = &cache->context->device->renewed_ns;
    uint64_t last = atomic_load_explicit(shared, memory_order_relaxed);
    if ((now - cache->renewed_ns >= every * (turns > OWN_RENEWS ? turns : OWN_RENEWS) ||
         (int64_t)(now - last) >= (int64_t)every) &&
        atomic_compare_exchange_strong_explicit(shared, &last, now, memory_order_relaxed,
                                                memory_order_relaxed)) {
        cache->renewed_ns = now;
        set_interval(cache->pool);
        return false;
    }
    cache->budget = BUDGET;
    return true;
}

void cache_note_taken(struct cache *cache) {
    uint64_t taken = cache->peak_live - cache->sums[SUM_held];
    if ((int64_t)(taken - cache->peak_taken) > 0)
        cache->peak_taken = taken;
}

/* With several threads this assumes that all of them had their highest at once, so a peak may come
 * out too high, never too low. */
static void merge_peaks(struct pool *pool, struct cache *cache) {
    cache_note_taken(cache);
    ledger_note_peaks(pool, cache->context->device, cache->peak_in_use, cache->peak_live,
                      cache->peak_taken);
    cache->peak_in_use = cache->peak_live = cache->peak_taken = 0;
}

static void merge_frees(struct pool *pool, struct cache *cache, uint64_t frees) {
    struct pool_block *block, *next;
    if (!frees)
        return;
    if (!cache->defers) {
        wait_owe_more(pool, frees - cache->waited);
        cache->waited = 0;
        return;
    }
    for (block = cache->deferred; block; block = next) {
        next = block->next;
        fence_defer(pool, block, NULL);
    }
    cache->deferred = NULL;
}

/* Lock held. */
static void merge_fresh(struct pool *pool, struct cache *cache) {
    lock_check_held(LOCK_POOL);
    if (!cache->fresh)
        return;
    ledger_adopt(pool, cache->fresh);
    cache->fresh = NULL;
    ledger_publish(pool, cache->context->device);
    if (pool->config.map)
        block_map_grow(pool, cache->context->device);
}

/* The counters that have these sums when they are merged. */
static const struct {
    enum stats_counter counter;
    enum cache_sum sum;
} merged[] = {
#define MERGED_COUNTER(field, sum, help) {STATS_##field, SUM_##sum},
#include "counters/counters.def"
};

/* Merges the sums, which hold when all caches' are there. Readers of the stats page have them from
 * the shard already. Lock held. */
static void merge(struct pool *pool, struct cache *cache) {
    lock_check_held(LOCK_POOL);
    const uint64_t *sums = cache->sums;
    cache->busy = sums[SUM_hits] || sums[SUM_frees] || cache->fresh;
    if (!cache->busy)
        return;
    struct device *device = cache->context->device;
    merge_peaks(pool, cache);
    merge_frees(pool, cache, sums[SUM_frees]);
    for (size_t i = 0; i < sizeof merged / sizeof *merged; i++)
        if (sums[merged[i].sum])
            stats_add(merged[i].counter, sums[merged[i].sum]);
#define ADD_FIGURE(name, sums, help) device->name += sums;
    DEVICE_FIGURES(ADD_FIGURE)
#undef ADD_FIGURE
    cache->context->live_blocks += sums[SUM_fresh] + sums[SUM_hits] - sums[SUM_frees];
    device->over_size += sums[SUM_over];
    device->frees += sums[SUM_frees];
    device->changes += sums[SUM_hits] + sums[SUM_frees] + sums[SUM_fresh];
    if (!cache->nothing_idle)
        headroom_shrinks(device, sums[SUM_held]);
    cache->served += sums[SUM_hits] + sums[SUM_fresh] + sums[SUM_frees];
    memset(cache->sums, 0, sizeof cache->sums);
}

/* Lock held. */
BY_POINTER static void stop(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    for (int i = 0; i < pool->active_count; i++)
        if (!cache_try_lock(pool->active[i]))
            cache_lock_at_last(pool, pool->active[i]);
    bool fresh = false;
    for (int i = 0; i < pool->active_count; i++) {
        merge(pool, pool->active[i]);
        fresh = fresh || pool->active[i]->fresh;
    }
    for (int i = 0; fresh && i < pool->active_count; i++)
        merge_fresh(pool, pool->active[i]);
}

/* Finds a block that lives on when another is freed, so that the other is not the last. Any block
 * will do; one that lives long saves looking for another with all caches stopped. Among a few, the
 * one whose site allocates least is taken. Its free goes the long way, which may find another block
 * than a cache would, so the choice does not depend on addresses: a program's runs are alike. */
static void find_sentinel(struct pool *pool, struct context *context) {
    enum { PLACES = 256, CANDIDATES = 64 };
    uint64_t least = UINT64_MAX;
    uint64_t wanted = context->live_blocks < CANDIDATES ? context->live_blocks : CANDIDATES;
    for (int i = 0; i < PLACES && wanted; i++) {
        struct pool_block *block = ledger_look(pool, &pool->sentinel_place);
        if (!block || block->state != BLOCK_LIVE || block->context != context)
            continue;
        uint64_t allocations = stats_site_allocations(block->site->stats);
        if (allocations < least) {
            least = allocations;
            context->sentinel = block;
        }
        wanted--;
    }
}

static void merge_all_counts(struct cache *cache) {
    for (unsigned at = 0; cache->bins_apart && at < cache->table.used_count; at++)
        cache_merge_counts(cache_table_at(&cache->table, at));
}

/* Whether only this cache changes anything until it is stopped again, and only its blocks and the
 * store's could serve its requests. */
static bool is_alone(const struct pool *pool, const struct cache *cache) {
    bool alone = pool->active_count == 1 && !cache->defers && !context_may_defer(cache->context);
    for (int i = 0; i < pool->cache_count && alone; i++)
        alone = pool->caches[i] == cache || pool->caches[i]->context != cache->context;
    return alone;
}

/* Sets what the cache may do until it is stopped again. */
static void grant(struct pool *pool, struct cache *cache) {
    struct context *context = cache->context;
    const struct pool_config *config = &pool->config;
    bool serves = pool->caches_serve && !context->broken && !context->releases &&
                  !atomic_load(&pool->captures) && !atomic_load(&pool->down);
    uint64_t changes = context->device->changes;
    cache->young = changes < YOUNG_CHANGES;
    if (cache->young || changes - cache->counts_merged >= YOUNG_CHANGES) {
        cache->counts_merged = changes;
        merge_all_counts(cache);
    }
    cache->key = serves ? cache_key(pool, context->handle) : 0;
    if (cache->young)
        cache->budget = YOUNG_BUDGET;
    else if (cache->budget <= 0) /* else others would put its turn off for ever */
        cache->budget = BUDGET;
    cache->defers = config->free_mode == POOL_FREE_DEFER;
    bool may_free =
        serves && !context->device->pressure && wait_is_skipped(pool, context, cache->thread);
    context->frees_quickly = may_free;
    if (may_free && !cache->defers && !context->sentinel)
        find_sentinel(pool, context);
    cache->fit = waste_bound_fit(config, context->device, 0, 0);
    cache->fit.surplus /= (uint64_t)pool->active_count; /* each may use its part */
    cache->fit.strict /= (uint64_t)pool->active_count;
    cache->nothing_idle = serves && !device_idle(context->device) && !PLANTED(record_removed_late);
    cache->alone = serves && is_alone(pool, cache) && !PLANTED(record_removed_late);
    cache->may_miss = cache->nothing_idle || cache->alone;
    cache->misses_near = cache->may_miss && !cache->table.displaced;
    cache->may_grow = cache->alone ? idle_bound_room_to_grow(context->device) : 0;
    cache->stops += CACHE_STOP;
    cache->sentinel = cache->defers ? NULL : context->sentinel;
    cache->freeable =
        may_free && (cache->defers || context->sentinel) ? pool->map.table : pointer_table_empty;
}

/* For a cache that has served nothing since it was last stopped. *now: 0 until the clock is
 * read. */
static bool is_to_be_parked(const struct pool *pool, struct cache *cache, uint64_t *now) {
    if (atomic_load_explicit(&pool->renew_ns, memory_order_relaxed) < CROWDED_NS)
        return true;
    if (!*now)
        *now = pool_now(pool);
    if (!cache->rests_since)
        cache->rests_since = *now;
    return *now - cache->rests_since >= PARK_NS;
}

/* Chooses the caches that go on: those used lately, and with with_own the calling thread's. */
static void choose_active(struct pool *pool, bool with_own) {
    struct cache *own = cache_mine.cache;
    uint64_t now = 0;
    int count = 0;
    if (own && (own->pool != pool || !own->context))
        own = NULL;
    for (int i = 0; i < pool->active_count; i++) {
        struct cache *cache = pool->active[i];
        if (cache == own)
            continue;
        if (cache->busy)
            cache->rests_since = 0;
        if (cache->context && (cache->busy || !is_to_be_parked(pool, cache, &now))) {
            pool->active[count++] = cache;
        } else {
            merge_all_counts(cache);
            cache->parked = true;
        }
    }
    if (own) {
        own->parked = !with_own;
        own->rests_since = 0;
    }
    if (own && with_own)
        pool->active[count++] = own;
    pool->active_count = count;
}

/* No cache goes on before all are granted: what one brings to a site, another may count in. Lock
 * held. */
BY_POINTER static void resume(struct pool *pool, bool with_own) {
    lock_check_held(LOCK_POOL);
    choose_active(pool, with_own);
    for (int i = 0; i < pool->active_count; i++)
        grant(pool, pool->active[i]);
    for (int i = 0; i < pool->active_count; i++)
        cache_unlock(pool->active[i]);
    wake_waiters(pool);
}

const struct lock_follower cache_follower = {stop, resume};
