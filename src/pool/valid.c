/* Whether the pool's records agree with each other: for tests, not part of the preloaded object. */
#include "pool/cache_parts.h"

static bool is_kept(const struct pool_block *block) {
    return block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED;
}

static bool block_is_valid(const struct pool_block *block) {
    return block->state != BLOCK_GONE && block->context && !block->context->ended && block->site &&
           block->requested <= block->size &&
           (block->context->keeper->cuts || block->asked <= block->size) &&
           (is_kept(block) ? block->requested == 0 : block->requested > 0);
}

static bool device_is_valid(const struct pool *pool, const struct device *device) {
    uint64_t live = 0, idle = 0, in_use = 0, over_size = 0, live_blocks = 0, idle_blocks = 0;
    const struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        idle += context->device == device ? context->store.unused : 0;
    const struct pool_block *block;
    struct ledger_place place = {0};
    while ((block = ledger_next(pool, &place))) {
        if (block->context->device != device)
            continue;
        if (is_kept(block)) {
            idle += block->size;
            idle_blocks++;
            continue;
        }
        live += block->size;
        live_blocks++;
        in_use += block->requested;
        size_t rounded = block->context->keeper->round(block->requested);
        over_size += block->size > rounded ? block->size - rounded : 0;
    }
    return live == device->live && idle == device_idle(device) && over_size == device->over_size &&
           in_use == device->in_use && device->peak_in_use >= in_use && device->pressure >= 0 &&
           device->unvisited >= 0 && device->ending >= 0 &&
           device->releasing >= device->unvisited + device->ending &&
           live_blocks == device->live_blocks && idle_blocks == device_idle_blocks(device) &&
           device->peak_live >= live && device->peak_held >= live + idle;
}

static bool context_is_valid(const struct pool *pool, const struct context *context) {
    size_t idle = 0, live = 0;
    const struct pool_block *block;
    struct ledger_place place = {0};
    while ((block = ledger_next(pool, &place))) {
        idle += block->context == context && block->state == BLOCK_IDLE && !block->cached;
        live += block->context == context && !is_kept(block);
    }
    return !context->ended && idle == context->store.count && live == context->live_blocks &&
           context->keeper->is_valid(&context->store);
}

static bool is_in_index(const struct pool *pool, const struct pool_block *block) {
    return address_index_find(pool, block->pointer) == block &&
           address_index_find(pool, block->pointer + block->size - 1) == block;
}

/* Whether the index has the sums of what is in it, which it adds to *count. */
static bool index_is_valid(const struct index_blocks *blocks, size_t *count) {
    size_t seen = 0, bytes = 0;
    const struct pool_block *block;
    struct index_entry *place = NULL;
    while ((block = address_index_next(blocks, &place))) {
        seen++;
        bytes += block->size;
    }
    *count += seen;
    return seen == blocks->count && bytes == blocks->bytes;
}

static bool pages_are_valid(const struct address_index *index) {
    size_t pages = 0, crossing = 0;
    uint64_t last = UINT64_MAX;
    const struct pool_block *block;
    struct index_entry *place = NULL;
    while ((block = address_index_next(&index->small, &place))) {
        uint64_t first = block->pointer / ROUND_PAGE;
        pages += first != last;
        last = (block->pointer + block->size - 1) / ROUND_PAGE;
        pages += last - first;
        crossing += last != first;
    }
    return pages == index->pages && crossing == index->crossing;
}

/* Whether readers of the stats find what the pool's records say, as long as no other pool counts
 * there. */
static bool stats_are_valid(const struct pool *pool) {
    uint64_t in_use = 0, live = 0, held = 0, live_blocks = 0, idle_blocks = 0;
    const struct device *device;
    TAILQ_FOREACH (device, &pool->devices, link) {
        if (device->memory != POOL_DEVICE)
            continue;
        in_use += device->in_use;
        live += device->live;
        held += device->held;
        live_blocks += device->live_blocks;
        idle_blocks += device_idle_blocks(device);
    }
    return stats_get(STATS_in_use_bytes) == in_use && stats_get(STATS_held_bytes) == held &&
           stats_get(STATS_waste_bytes) == live - in_use &&
           stats_get(STATS_idle_bytes) == held - live &&
           stats_get(STATS_live_blocks) == live_blocks &&
           stats_get(STATS_idle_blocks) == idle_blocks;
}

/* Counts the bin's blocks. */
static bool bin_is_valid(const struct cache *cache, const struct cache_bin *bin, size_t *count) {
    for (const struct pool_block *block = bin->head; block; block = block->next) {
        if (block->state != BLOCK_IDLE || !block->cached || block->site != bin->site ||
            block->size != bin->size || block->context != cache->context || block->quick_freeable)
            return false;
        ++*count;
    }
    return bin->site || !bin->head;
}

/* Lock held. */
static bool caches_are_valid(const struct pool *pool) {
    lock_check_held(LOCK_POOL);
    size_t kept = 0, marked = 0;
    const struct pool_block *block;
    struct ledger_place place = {0};
    for (int i = 0; i < pool->cache_count; i++) {
        const struct cache *cache = pool->caches[i];
        if (!cache_table_is_valid(&cache->table))
            return false;
        for (unsigned j = 0; j < cache->table.count; j++)
            if (!bin_is_valid(cache, &cache->table.bins[j], &kept))
                return false;
    }
    while ((block = ledger_next(pool, &place)))
        marked += block->cached;
    return kept == marked;
}

static bool is_valid(struct pool *pool) {
    const struct pool_block *block;
    struct ledger_place place = {0};
    size_t count = 0, whole = 0;
    while ((block = ledger_next(pool, &place))) {
        if (!block_is_valid(block) || ledger_find(pool, block->pointer) != block)
            return false;
        count++;
        if (block->context->keeper->cuts || !pool->indexed)
            continue;
        if (!is_in_index(pool, block))
            return false;
        whole++;
    }
    if (count != pool->map.count || !caches_are_valid(pool))
        return false;
    size_t indexed = 0;
    const struct device *device;
    TAILQ_FOREACH (device, &pool->devices, link)
        if (!device_is_valid(pool, device) || !index_is_valid(&device->index.small, &indexed) ||
            !index_is_valid(&device->index.large, &indexed) || !pages_are_valid(&device->index))
            return false;
    if (indexed != whole)
        return false;
    const struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (!context_is_valid(pool, context))
            return false;
    return stats_are_valid(pool);
}

bool pool_is_valid(struct pool *pool) {
    lock_check_none();
    pool_lock(pool);
    bool valid = is_valid(pool);
    pool_unlock(pool);
    return valid;
}
