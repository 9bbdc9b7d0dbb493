/* What becomes a live block for a request: an idle one that serves, or what the driver has given.
 */
#include "pool/cache_stopped.h"
#include "pool/suballocation.h"

void take_count_hits(const struct context *context, struct site *site, int many) {
    lock_check_held(LOCK_POOL);
    uint64_t more = (uint64_t)many;
    stats_grow(&site->stats->hits, more);
    stats_grow(&site->stats->misses, 0 - more);
    device_count(context->device, 0, more);
    stats_add(STATS_malloc_hits, more);
}

/* Makes a block live that is kept nowhere any more. */
static void hand_out(struct pool *pool, struct pool_block *block, struct site *site, size_t bytes,
                     unsigned how) {
    /* This comes before the history is noted, as the allocation did. */
    take_count_hits(block->context, site, 1);
    source_note_size(block->context, site, bytes);
    count_by_kind(block->context->kind.memory, STATS_host_hits, STATS_managed_hits);
    if (block->context->kind.memory == POOL_MANAGED)
        managed_begin_life(block);
    ledger_make_live(pool, block, site, bytes);
    stats_grow(&site->stats->allocated_bytes, bytes);
    if (how & TAKEN_STOLEN)
        stats_add(STATS_malloc_stolen, 1);
}

/* What the keeper takes out for the request. *how: as it says. */
static inline struct pool_block *take_kept(struct pool *pool, struct context *context,
                                           struct site *site, const struct fit *fit,
                                           unsigned *how) {
    struct pool_block *block = context->keeper->take(&context->store, site, fit, how);
    if (*how & TAKEN_TO_CUT)
        suballocation_cut(pool, block, context->keeper->rest(block, fit));
    return block;
}

/* Makes the site known to the thread's cache; NULL: it has none. Lock held. */
static struct cache *know_site(struct pool *pool, struct context *context, struct site *site) {
    lock_check_held(LOCK_POOL);
    struct cache *cache = context->keeper->take_same ? cache_own(pool, context) : NULL;
    uintptr_t id = site->id;
    if (cache)
        *cache_place_for(cache, id) = (struct cache_site){.id = id, .site = site};
    return cache;
}

struct pool_block *pool_take(struct pool *pool, struct context *context, struct site *site,
                             size_t bytes, size_t size) {
    lock_check_held(LOCK_POOL);
    unsigned how = 0;
    struct pool_block *block = cache_take(pool, context, site, size);
    if (!block) { /* takes what others have idle, or of other sizes */
        struct fit fit = waste_bound_fit(&pool->config, context->device, bytes, size);
        cache_offer(pool, context, site, &fit);
        block = take_kept(pool, context, site, &fit, &how);
    }
    if (block) {
        know_site(pool, context, site);
        hand_out(pool, block, site, bytes, how);
    }
    return block;
}

struct pool_block *pool_take_larger(struct pool *pool, const struct request *request, bool wastes) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    const uint64_t more = wastes ? UINT64_MAX : waste_bound_left(&pool->config, context->device);
    const struct fit fit = {.bytes = request->bytes,
                            .size = request->size,
                            .ratio = (double)UINT64_MAX,
                            .surplus = more,
                            .steal = true,
                            .last = true};
    unsigned how = 0;
    cache_drain(pool, context);
    struct pool_block *block = take_kept(pool, context, request->site, &fit, &how);
    if (!block)
        return NULL;
    hand_out(pool, block, request->site, request->bytes, how);
    stats_add(STATS_oom_larger, 1);
    return block;
}

struct pool_block *pool_take_in_stream(struct pool *pool, const struct request *request) {
    lock_check_held(LOCK_POOL);
    if (!request->stream || pool->config.zero) /* which would clear it in another stream */
        return NULL;
    struct context *context = request->context;
    struct fit fit = waste_bound_fit(&pool->config, context->device, request->bytes, request->size);
    struct pool_block *block = fence_find_freed_in(context, request->stream, &fit);
    if (!block || (!fit.steal && block->site != request->site))
        return NULL;
    ledger_take_out(pool, block);
    hand_out(pool, block, request->site, request->bytes,
             block->site != request->site ? TAKEN_STOLEN : 0);
    stats_add(STATS_async_same_stream, 1);
    return block;
}

/* After a miss of the site: its next misses in this thread may be for cache_miss.c. Lock held. */
static void prepare_next(struct pool *pool, struct context *context, struct site *site) {
    lock_check_held(LOCK_POOL);
    struct cache *cache = know_site(pool, context, site);
    if (!cache)
        return;
    if (!site->record->counting && stats_site_index(site->stats))
        site->record->counting = cache;
    /* A thread's first misses go on the long way, where they are timed. */
    if (!cache->spare && call_timers[STATS_CALL_ALLOC].timed >= CALL_TIMER_FIRST)
        cache->spare = ledger_take_records(pool);
}

unsigned take_row_with(const struct site *site, size_t size) {
    enum { MOST_BETWEEN = 7 };
    bool soon = stats_read(&site->stats->hits) - site->hits_before <= MOST_BETWEEN;
    return size <= site->largest_missed ? 0 : soon ? site->growing + 1 : 1;
}

/* Small ones sooner: even the largest answer to them shares a page with others. */
bool take_row_grows(unsigned row, size_t size) {
    enum { AFTER = 5, SMALL = 256 << 10, SMALL_AFTER = 3 };
    return row >= (size <= SMALL ? SMALL_AFTER : AFTER);
}

void take_learn(struct site *site, size_t size, unsigned row) {
    site->hits_before = stats_read(&site->stats->hits);
    site->growing = row;
    if (size > site->largest_missed) {
        site->least_missed = site->largest_missed ? 0 : size;
        site->largest_missed = size;
    } else if (size < site->least_missed) {
        site->least_missed = size;
    }
}

/* The largest size that may serve the request, within the bounds. Kept out of the way of others'
 * misses. */
__attribute__((noinline)) static size_t size_for_growing(struct pool *pool,
                                                         const struct request *request) {
    struct device *device = request->context->device;
    uint64_t room = idle_bound_room_to_grow(device);
    if (room <= request->size) {    /* cache_making_room.c knows of this, too */
        request->site->growing = 0; /* not to be asked at each miss */
        return request->size;
    }
    struct fit fit = waste_bound_fit(&pool->config, device, request->bytes, request->size);
    room -= request->size;
    fit.surplus = fit.surplus < room ? fit.surplus : room;
    fit.little = true;
    size_t size = request->context->keeper->reach(&fit);
    device->saves = device->saves || size > request->size;
    return size;
}

size_t take_size_to_ask(struct pool *pool, const struct request *request, bool *falls) {
    lock_check_held(LOCK_POOL);
    const struct context *context = request->context;
    *falls = false;
    if (!context->keeper->reach || context->ended || request->pitch)
        return request->size;
    *falls = request->size < request->site->least_missed;
    unsigned row = take_row_with(request->site, request->size);
    take_learn(request->site, request->size, row);
    return take_row_grows(row, request->size) ? size_for_growing(pool, request) : request->size;
}

void take_obtained(struct pool *pool, const struct request *request,
                   const struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    size_t bytes = request->pitch ? obtained->size : request->bytes;
    if (obtained->share)
        LIST_REMOVE(obtained, link);
    if (obtained->in_driver_pool && !PLANTED(adopted_after_end)) /* its context ends from now on */
        pool_count_released(pool, request->context->device, 1);
    if (request->context->ended) { /* the memory went with it */
        if (obtained->block)
            ledger_recycle(pool, obtained->block);
        return;
    }
    if (obtained->stitched) {
        take_count_hits(request->context, request->site, 1);
        stats_add(STATS_malloc_stitched, 1);
    }
    if (request->context->keeper->cuts) {
        suballocation_adopt(pool, request, obtained);
    } else {
        struct pool_block *block = ledger_add(pool, request->context, request->site,
                                              obtained->pointer, obtained->size, bytes);
        if (block) {
            block->in_driver_pool = obtained->in_driver_pool;
            if (request->size && obtained->size > request->size)
                block->asked = obtained->size; /* not rounding alone has made it larger */
        }
    }
    stats_grow(&request->site->stats->allocated_bytes, bytes);
    given_up_miss(request->context->device, obtained->size);
    if (pool->config.map)
        block_map_grow(pool, request->context->device);
    prepare_next(pool, request->context, request->site);
}

void take_late(struct pool *pool, struct pool_block *meant, CUdeviceptr pointer) {
    lock_check_none();
    struct context *context = meant->context;
    const struct obtained obtained = {.pointer = pointer, .size = meant->size};
    const struct request request = {context, meant->site, meant->asked, meant->size, NULL, NULL};
    pool_lock(pool);
    ledger_recycle(pool, meant);
    if (pointer) {
        stats_add(STATS_malloc_calls, 1);
        stats_add(STATS_driver_allocs, 1);
    }
    if (pointer && !context->ended) { /* and so the site is still there */
        stats_grow(&request.site->stats->misses, 1);
        device_count(context->device, 1, 0);
        take_obtained(pool, &request, &obtained);
    }
    pool_unlock(pool);
}
