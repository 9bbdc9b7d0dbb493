/* Misses of a cache that is alone, before which idle memory has to go back to the driver: what a
 * program does all the while whose sizes are ever new.
 *
 * What goes, and when, is what malloc.c and release.c would choose, by the same bounds. It is done
 * here if it is one block that the cache itself keeps, and no call is to be timed; all else is left
 * to the long way, before anything has happened. The pool is not locked for it, as the cache's own
 * lock stands for the pool's. */
#include "pool/cache_stopped.h"

/* What is to happen before the request is served. */
struct plan {
    struct pool_block *gives; /* is to go back; NULL: nothing is */
    struct cache_bin *bin;    /* the block is the only one there; NULL: it is in the store */
    unsigned row;             /* see take_row_with */
    bool grows;               /* by the site, beyond all that it has missed so far */
};

/* Chooses the largest idle block, if that is enough and no other is like it: as
 * release_next_victim. */
static bool choose(struct cache *cache, uint64_t bytes, struct plan *plan) {
    const struct context *context = cache->context;
    struct pool_block *kept = context->keeper->victim(&cache->context->store);
    bool alike;
    struct cache_bin *bin = cache_table_largest(&cache->table, &alike);
    if (kept && (!bin || kept->size > bin->size)) {
        plan->gives = kept;
    } else if (bin && (!kept || bin->size > kept->size) && !bin->head->next && !alike) {
        plan->gives = bin->head;
        plan->bin = bin;
    }
    return plan->gives && plan->gives->size >= bytes;
}

/* Whether the miss need not ask for more than its size: see take_size_to_ask. */
static bool asks_for_its_size(const struct device *device, size_t size, struct plan *plan) {
    if (!take_row_grows(plan->row, size))
        return true;
    plan->row = 0;
    return idle_bound_room_to_grow(device) <= size;
}

/* Whether a block was given up that might have served, which is counted on the long way. Lock held.
 */
static bool was_given_up(struct device *device, size_t size) {
    lock_check_held(LOCK_POOL);
    return *given_up_place(device, size) == size;
}

/* False: not here. Lock held. */
static bool make_plan(struct pool *pool, struct cache *cache, const struct site *site, size_t size,
                      struct plan *plan) {
    lock_check_held(LOCK_POOL);
    const struct context *context = cache->context;
    struct device *device = context->device;
    if (!cache->alone || device->unified || was_given_up(device, size) || size < site->least_missed)
        return false;
    *plan = (struct plan){.row = take_row_with(site, size), .grows = size > site->largest_missed};
    if (!asks_for_its_size(device, size, plan))
        return false;
    uint64_t excess = idle_bound_excess(pool, device, size), idle = device_idle(device);
    if (excess) {
        if (!context->event || context->event_pending || !choose(cache, excess, plan))
            return false;
        idle -= plan->gives->size;
    }
    return headroom_is_there(device, idle, size) && !decay_is_due(pool, device);
}

/* Locks the cache again. False: it has been stopped meanwhile, or serves no more, or another thread
 * that has it, too, has used it. */
static inline bool come_back(struct cache *cache, const struct context *context, uint64_t stops) {
    if (!cache_lock(cache))
        return false;
    if (cache->stops == stops && cache->context == context && cache->key && cache_is_settled(cache))
        return true;
    cache_unlock(cache);
    return false;
}

/* The cache was stopped or used while the driver was asked. Lock not held. */
static bool stop_asking(struct pool *pool, struct cache *cache) {
    lock_check_none();
    pool_lock(pool);
    cache->asking--;
    pool_unlock(pool);
    return false;
}

/* Nothing goes back: its free would wait. Cache locked. */
static bool stay(struct cache *cache, CUresult result) {
    cache_check_locked(cache);
    cache->asking--;
    cache->context->event_pending = result == CUDA_ERROR_NOT_READY;
    stats_add(STATS_bound_postponed, 1);
    return true;
}

/* Takes the block out. Cache locked. */
static void take_out(struct pool *pool, struct cache *cache, const struct plan *plan) {
    cache_check_locked(cache);
    struct pool_block *block = plan->gives;
    struct device *device = cache->context->device;
    cache_stands_for_pool(cache);
    if (plan->bin)
        cache_pop(plan->bin);
    else
        ledger_take_out(pool, block);
    ledger_remove_unnoted(pool, block); /* the history notes what comes in its place */
    device->changes++;
    block->next_leaving = NULL;
    device->releasing++;
    device->unvisited++;
    given_up_note(device, block, NULL);
    stats_add(STATS_bound_released_blocks, 1);
    cache_stands_for_itself(cache);
}

/* Gives the block to the driver, which waits for nothing. Lock not held. */
static CUresult give(struct pool *pool, struct pool_block *block) {
    lock_check_none();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    capture_mode_exchange(pool, &mode);
    CUresult result = call_timer_rests(STATS_CALL_FREE)
                          ? source_release(pool, POOL_DEVICE, block->pointer)
                          : release_timed(pool, block);
    capture_mode_exchange(pool, &mode);
    block->refused = result != CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_frees, 1);
    return result;
}

/* What is left to do where the driver has refused the block, or come_back is false. Lock not held.
 */
static bool end_late(struct pool *pool, struct cache *cache, struct context *context,
                     struct pool_block *block, CUresult result) {
    lock_check_none();
    struct release_list releases = {.first = block, .device = context->device};
    pool_note_error(pool, result);
    pool_lock(pool);
    release_list_end(pool, &releases, result == CUDA_SUCCESS, NULL);
    if (context->device->unvisited) { /* else an end has given the block up */
        context->device->unvisited--;
        pool_count_released(pool, context->device, 1);
    }
    futex_change(&pool->release_rounds); /* the context's end may wait for this block alone */
    cache->asking--;
    pool_unlock(pool);
    return false;
}

/* The site goes on to sizes larger than all before: nothing comes back to the bin. Whoever knows
 * it, in cache_last.c, looks at `stops`. */
static void forget_bin(struct cache *cache, struct cache_bin *bin) {
    if (bin->stats == bin->site->stats && !bin->head) {
        cache_table_remove_late(&cache->table, bin);
        cache->stops += CACHE_STOP;
    }
}

/* What is left to do where nobody else has had the pool, and so none waits for what was given back.
 * Cache locked. */
static bool end_here(struct pool *pool, struct cache *cache, const struct plan *plan) {
    cache_check_locked(cache);
    struct device *device = cache->context->device;
    cache_stands_for_pool(cache);
    plan->gives->next = cache->spare;
    cache->spare = plan->gives;
    device->saves = cache->fit.little = true;
    if (device->unvisited && (device->unvisited--, !--device->releasing))
        atomic_fetch_add(&pool->release_rounds, 1);
    cache->nothing_idle = !device_idle(device);
    cache->may_grow = idle_bound_room_to_grow(device);
    cache->asking--;
    if (plan->bin && plan->grows)
        forget_bin(cache, plan->bin);
    cache_stands_for_itself(cache);
    return true;
}

/* Gives back the block, which waits for nothing; or leaves it where it is, if that would wait. As
 * cache_make_room. Cache locked on entry, not on return. */
static bool give_back(struct pool *pool, struct cache *cache, const struct plan *plan) {
    cache_check_locked(cache);
    struct context *context = cache->context;
    uint64_t stops = cache->stops;
    CUevent event = context->event;
    cache->asking++;
    cache_unlock(cache);
    CUresult result = quiet_ask_by(pool, context, event);
    if (!come_back(cache, context, stops))
        return stop_asking(pool, cache);
    if (result != CUDA_SUCCESS)
        return stay(cache, result);
    take_out(pool, cache, plan);
    cache_unlock(cache);
    result = give(pool, plan->gives);
    if (result != CUDA_SUCCESS || !come_back(cache, context, stops))
        return end_late(pool, cache, context, plan->gives, result);
    return end_here(pool, cache, plan);
}

bool cache_make_room(struct pool *pool, struct cache *cache, struct site *site, size_t size) {
    cache_check_locked(cache);
    struct plan plan;
    cache_stands_for_pool(cache);
    /* Else the ledger is behind: to bring it up to date takes as long as the long way. More threads
     * may share the cache: one of them may be giving back the very block that would go. */
    bool here =
        cache_is_settled(cache) && !cache->asking && make_plan(pool, cache, site, size, &plan);
    cache_stands_for_itself(cache);
    if (!here) {
        cache_unlock(cache);
        return false;
    }
    if (plan.gives && !give_back(pool, cache, &plan))
        return false;
    take_learn(site, size, plan.row);
    return true;
}

bool cache_learn(struct cache *cache, struct site *site, size_t size) {
    cache_check_locked(cache);
    unsigned row = take_row_with(site, size);
    if (!cache->alone || take_row_grows(row, size))
        return false;
    cache_stands_for_pool(cache);
    bool given_up = was_given_up(cache->context->device, size);
    cache_stands_for_itself(cache);
    if (!given_up)
        take_learn(site, size, row);
    return !given_up;
}
