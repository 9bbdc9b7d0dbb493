/* What becomes a live block for a request: an idle one that serves, or what the driver gives. */
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

void take_hand_out(struct pool *pool, struct pool_block *block, struct site *site, size_t bytes,
                   unsigned how) {
    lock_check_held(LOCK_POOL);
    /* This comes before the history is noted, as the allocation did. */
    take_count_hits(block->context, site, 1);
    ledger_note_size(block->context, site, bytes);
    count_by_kind(block->context->kind.memory, STATS_host_hits, STATS_managed_hits);
    if (block->context->kind.memory == POOL_MANAGED)
        managed_begin_life(block);
    ledger_make_live(pool, block, site, bytes);
    stats_grow(&site->stats->allocated_bytes, bytes);
    if (how & TAKEN_STOLEN)
        stats_add(STATS_malloc_stolen, 1);
}

struct pool_block *take_kept(struct pool *pool, struct context *context, struct site *site,
                             const struct fit *fit, unsigned *how) {
    lock_check_held(LOCK_POOL);
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
        take_hand_out(pool, block, site, bytes, how);
    }
    return block;
}

/* After a miss of the site: its next misses in this thread may be for cache_miss. Lock held. */
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

size_t take_size_to_ask(struct pool *pool, struct request *request, bool *falls) {
    lock_check_held(LOCK_POOL);
    const struct context *context = request->context;
    *falls = false;
    if (!context->keeper->reach || context->ended || request->pitch)
        return context->keeper->same_size ? rounding_size(pool, request) : request->size;
    *falls = request->size < request->site->least_missed;
    unsigned row = take_row_with(request->site, request->size);
    take_learn(request->site, request->size, row);
    return take_row_grows(row, request->size) ? size_for_growing(pool, request) : request->size;
}

struct pool_block *take_find_misfit(struct pool *pool, const struct request *request, size_t growth,
                                    bool falls) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    if (!context->keeper->misfit || context->ended)
        return NULL;
    bool most = falls && context->device->held + growth > context->device->peak_held;
    if (most)
        cache_drain(pool, context);
    return context->keeper->misfit(request->site, most ? growth : 0);
}

void take_obtained(struct pool *pool, const struct request *request,
                   const struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    size_t bytes = request->pitch ? obtained->size : request->bytes;
    if (obtained->share || obtained->in_driver_pool)
        source_adopted(pool, request->context, obtained);
    if (request->context->ended) { /* the memory goes with it */
        if (obtained->block)
            stranded_keep(pool, obtained->block);
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

/* Whether the policy obtains the memory. It needs to know how much, so not while the pitch is
 * unknown, or if that many rows are more than any address. */
static bool obtains(const struct request *request) {
    return request->context->source->obtain && request->site && (!request->pitch || request->size);
}

__attribute__((always_inline)) static inline CUresult ask_untimed(struct pool *pool,
                                                                  const struct request *request,
                                                                  size_t size,
                                                                  struct obtained *obtained) {
    const struct pitch_request *pitch = request->pitch;
    CUresult result;
    *obtained = (struct obtained){.size = size};
    if (obtains(request))
        return source_obtain_sharing(pool, request, size, obtained);
    if (!pitch)
        return source_obtain(pool, &request->context->kind, size, obtained);
    result = pool->driver->mem_alloc_pitch(&obtained->pointer, pitch->pitch, pitch->width,
                                           pitch->height, pitch->element);
    obtained->size = *pitch->pitch * pitch->height;
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    return result;
}

/* Kept out of the way of calls that go untimed. */
__attribute__((noinline)) static CUresult ask_timed(struct pool *pool,
                                                    const struct request *request, size_t size,
                                                    struct obtained *obtained) {
    enum pool_memory memory = request->context->kind.memory;
    uint64_t began = call_timer_start(STATS_CALL_ALLOC);
    CUresult result = ask_untimed(pool, request, size, obtained);
    if (result == CUDA_SUCCESS && source_is_timed(pool, memory))
        call_timer_stop(STATS_CALL_ALLOC, (enum stats_memory)memory, obtained->size, began);
    return result;
}

CUresult allocate_from_driver(struct pool *pool, const struct request *request, size_t size,
                              struct obtained *obtained) {
    lock_check_none();
    return call_timer_rests(STATS_CALL_ALLOC) ? ask_untimed(pool, request, size, obtained)
                                              : ask_timed(pool, request, size, obtained);
}
