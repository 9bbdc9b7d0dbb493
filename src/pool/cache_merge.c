/* What has happened in threads' caches, merged into the ledger. */
#include "pool/cache_parts.h"
#include "pool/history.h"

/* Compares as signed numbers: while caches are merged one after the other, what one has freed of
 * another's makes sums less than nothing. */
static void raise(uint64_t *peak, uint64_t value) {
    if ((int64_t)value > (int64_t)*peak)
        *peak = value;
}

/* With several threads this assumes that all of them had their highest at once, so a peak may come
 * out too high, never too low. */
static void merge_peaks(struct pool *pool, struct cache *cache) {
    struct device *device = cache->context->device;
    uint64_t more = cache->peak_live - cache->merged.live;
    raise(&device->peak_in_use, device->in_use + (cache->peak_in_use - cache->merged.in_use));
    raise(&device->peak_live, device->live + more);
    raise(&pool->peak_live, pool->in_use + pool->waste + more);
    cache_note_taken(cache);
    uint64_t taken = cache->peak_taken - (cache->merged.live - cache->merged.held);
    int64_t least = (int64_t)(device->idle - taken);
    if (least < (int64_t)device->least_idle)
        device->least_idle = least > 0 ? (uint64_t)least : 0;
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

void cache_merge_fresh(struct pool *pool, struct cache *cache) {
    lock_check_held(LOCK_POOL);
    if (!cache->fresh)
        return;
    ledger_adopt(pool, cache->fresh);
    cache->fresh = NULL;
    ledger_publish(pool, cache->context->device);
    history_map(pool, cache->context->device);
}

static struct cache_sums difference(const struct cache_sums *now, const struct cache_sums *then) {
    return (struct cache_sums){
#define CACHE_SUM(sum, what) .sum = now->sum - then->sum,
#include "observe/counters.def"
    };
}

/* Counts what the stats have from the shard, which the cache keeps up to date itself. */
static void publish(struct stats_sums *published, const struct cache_sums *change) {
#define SHARD_SUM(sum, what) published->sum += change->sum;
#include "observe/counters.def"
}

void cache_merge(struct pool *pool, struct cache *cache) {
    lock_check_held(LOCK_POOL);
    cache->busy = cache->sums.hits != cache->merged.hits ||
                  cache->sums.frees != cache->merged.frees || cache->fresh;
    if (!cache->busy)
        return;
    const struct cache_sums change = difference(&cache->sums, &cache->merged);
    struct device *device = cache->context->device;
    uint64_t idle = change.held - change.live, idle_blocks = change.frees - change.hits;
    merge_peaks(pool, cache);
    merge_frees(pool, cache, change.frees);
#define MERGED_COUNTER(field, sum, help)                                                           \
    if (change.sum)                                                                                \
        stats_add(STATS_##field, change.sum);
#include "observe/counters.def"
    pool->in_use += change.in_use;
    pool->waste += change.live - change.in_use;
    pool->idle += idle;
    pool->live_blocks += change.fresh - idle_blocks;
    pool->idle_blocks += idle_blocks;
    cache->context->live_blocks += change.fresh - idle_blocks;
    device->in_use += change.in_use;
    device->over_size += change.over;
    device->live += change.live;
    device->idle += idle;
    device->live_blocks += change.fresh - idle_blocks;
    device->idle_blocks += idle_blocks;
    device->allocations += change.hits + change.fresh;
    device->hits += change.hits;
    device->frees += change.frees;
    device->changes += change.hits + change.frees + change.fresh;
    if (!cache->nothing_idle)
        device->until_asked -=
            change.held < device->until_asked ? change.held : device->until_asked;
    publish(&pool->published, &change);
    publish(&device->published, &change);
    cache->merged = cache->sums;
    cache->peak_in_use = cache->sums.in_use;
    cache->peak_live = cache->sums.live;
    cache->peak_taken = cache->sums.live - cache->sums.held;
}

/* The page keeps what came from the shard. */
void cache_end_shard(struct pool *pool, struct cache *cache) {
    lock_check_held(LOCK_POOL);
    const struct cache_sums none = {0};
    const struct cache_sums back = difference(&none, &cache->sums);
    struct device *device = cache->context->device;
    publish(&pool->published, &back);
    publish(&device->published, &back);
    stats_shard_end(cache->shard);
    ledger_publish(pool, device);
}
