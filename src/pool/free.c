/* Frees. What becomes of a live block that the program frees:
 *
 *  1. The thread's cache keeps it, without the pool's lock, while the wait of the free is owed
 *     already or left to a fence (quick.c).
 *  2. It is released at once (free_must_release): it is tainted, a stream is captured, its context
 *     had a sticky error, its device is under pressure, or the driver has shut down.
 *  3. Else wait_choice says what becomes of the native free's wait for the device's work: WAIT_NOW
 *     makes it here; WAIT_OWED leaves it to the next call that could show the difference (wait.c),
 *     and the block is idle at once; WAIT_DEFERRED lets a fence stand for it (fence.c).
 *  4. What is too much then, by the keeper, the bounds or decay, is given up (free_keep).
 *
 * A pointer without a record is the driver's to free. A second free is answered INVALID_VALUE. */
#include "pool/free_parts.h"
#include "pool/suballocation.h"

#include "thread_marks.h"

/* Whether a live block must really be freed, captures and pressure aside. Lock held. */
static bool must_give_up(struct pool *pool, const struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    if (is_suballocation(block))
        return suballocation_passes(pool, block, current) || !context_is_known(pool, current);
    bool tainted = block->taints && !PLANTED(taint_recycled);
    return tainted || block->context->broken || block->context->releases ||
           (current != block->context->handle && context_is_lost(pool, current)) ||
           atomic_load(&pool->down) || !context_is_known(pool, current);
}

/* Whether another thread looks for memory that the driver could have of this block. Lock held. */
static bool is_under_pressure(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return block->context->device->pressure && !is_suballocation(block);
}

bool free_must_release(struct pool *pool, const struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    return atomic_load(&pool->captures) || is_under_pressure(block) ||
           must_give_up(pool, block, current);
}

void free_count(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    const struct context *context = block->context;
    cache_merge_counts_of(pool, block);
    ledger_note_size(context, block->site, block->requested);
    context->device->frees++;
}

void free_defer(struct pool *pool, struct pool_block *block, CUstream freed_in, uint32_t freed_by) {
    lock_check_held(LOCK_POOL);
    if (block->context->keeper->cuts)
        suballocation_taint(pool, block);
    ledger_make_deferred(pool, block);
    block->freed_by = freed_by;
    fence_defer(pool, block, freed_in);
}

/* Whether what is too much may go, if anything is, at a free that owes no wait: the driver's would
 * wait, and behind a wait that has been made for later work alone. *quiet: the context, if it has
 * just been seen to have none. Lock held on entry and return, not in between. */
static bool may_give_up(struct pool *pool, struct context *context, struct site *site,
                        const struct context **quiet) {
    lock_check_held(LOCK_POOL);
    const struct keeper *keeper = context->keeper;
    if (keeper->keeps_nothing || PLANTED(freed_while_busy) ||
        (!keeper->surplus(&context->store, site, pool->config.site_keep) &&
         !idle_bound_excess(pool, context->device, 0)))
        return true;
    pool_unlock_between(pool);
    bool rests = quiet_ask(pool, context) == REST_QUIET;
    pool_lock(pool);
    *quiet = rests ? context : NULL;
    stats_add(STATS_bound_postponed, !rests);
    return rests && !context->ended;
}

/* Gives up what is too much, if `waits` lets it. Lock held on entry and return, not in between. */
static void give_up(struct pool *pool, struct context *own, struct site *site,
                    struct release_list releases) {
    lock_check_held(LOCK_POOL);
    struct pool_block *surplus;
    while ((surplus = own->keeper->surplus(&own->store, site, pool->config.site_keep))) {
        if (!own->keeper->cuts)
            ledger_take_out(pool, surplus);
        else if (!(surplus = suballocation_take_out(pool, surplus, SIZE_MAX)))
            break;
        release_list_add(pool, &releases, surplus);
    }
    if (own->keeper->keeps_nothing) { /* the surplus is then idle in the driver's pool */
        release_list_give_back(pool, &releases);
        releases.bytes = releases.count = 0;
    }
    stats_add(STATS_bound_released_blocks, releases.count);
    uint64_t excess = idle_bound_excess(pool, releases.device, 0);
    if (excess)
        release_excess(pool, releases.device, NULL, excess, &releases);
    uint64_t due = decay_due(pool, releases.device);
    if (due)
        release_decayed(pool, releases.device, NULL, due, &releases);
    if (releases.first || releases.unused)
        release_list_give_back(pool, &releases);
}

void free_keep(struct pool *pool, struct pool_block *block, enum wait_choice wait) {
    lock_check_held(LOCK_POOL);
    struct context *own = block->context;
    struct site *site = block->site;
    struct release_list releases = {.device = own->device, .own = own};
    releases.waits = wait == WAIT_OWED ? RELEASE_WAITS_ONCE : RELEASE_IF_QUIET;
    if (wait == WAIT_DEFERRED) {
        free_defer(pool, block, NULL, thread_number());
    } else {
        if (block->context->keeper->cuts)
            suballocation_taint(pool, block);
        ledger_make_idle(pool, block); /* it may have been merged with others: it is gone */
    }
    stats_add(STATS_free_kept, 1);
    /* During a capture what is too much goes at a later free. */
    if (!atomic_load(&pool->captures) &&
        (wait == WAIT_OWED || may_give_up(pool, own, site, &releases.quiet)))
        give_up(pool, own, site, releases);
}

CUresult free_past_pool(struct pool *pool, struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    CUresult result;
    bool refused =
        current && !context_is_known(pool, current) && free_is_refused(pool, block, &result);
    enum past past = refused ? PAST_DONE : free_past(pool, block, current, &result);
    if (past != PAST_DONE)
        free_keep(pool, block, past == PAST_KEPT ? WAIT_NOW : WAIT_DEFERRED);
    pool_unlock(pool);
    return result;
}

/* What a free that has begun to wait is, if it cannot be the pool's own. A capture that forbids it
 * has begun meanwhile: natively the free was in the driver by then, which neither fails for that
 * nor spoils the capture. Lock held on entry, not on return. */
static CUresult past_pool_late(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pool_unlock_between(pool);
    capture_mode_exchange(pool, &mode);
    pool_lock(pool);
    CUresult result;
    if (block->state == BLOCK_GONE) {
        result = free_end_forgotten(pool, block);
    } else {
        ledger_set_state(block, BLOCK_LIVE);
        result = free_past_pool(pool, block, block->context->handle);
    }
    capture_mode_exchange(pool, &mode);
    return result;
}

/* Whether a thread that looks for memory may have the block although its free has waited: the
 * driver's free would wait once more, for later work. Lock held on entry and return, not in
 * between. */
static bool may_relieve(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct context *context = block->context;
    if (!is_under_pressure(block))
        return false;
    pool_unlock_between(pool);
    bool quiet = quiet_ask(pool, context) == REST_QUIET;
    pool_lock(pool);
    return quiet;
}

/* A block whose free has waited, with that result. Lock held on entry, not on return. */
static CUresult end_wait(struct pool *pool, struct pool_block *block, CUresult result) {
    lock_check_held(LOCK_POOL);
    bool fresh = result == CUDA_SUCCESS && managed_reset(pool, block);
    bool relieves = fresh && block->state != BLOCK_GONE && may_relieve(pool, block);
    bool gone = block->state == BLOCK_GONE;
    /* After a failed wait the driver says what its own free makes of this. */
    if (gone || !fresh || relieves || must_give_up(pool, block, block->context->handle))
        return past_pool_late(pool, block);
    ledger_set_state(block, BLOCK_LIVE);
    free_keep(pool, block, WAIT_NOW);
    pool_unlock(pool);
    return CUDA_SUCCESS;
}

CUresult free_waited_for(struct pool *pool, struct pool_block *block, CUresult result) {
    lock_check_held(LOCK_POOL);
    stats_add(STATS_free_calls, 1);
    if (block->state != BLOCK_GONE)
        free_count(pool, block);
    return end_wait(pool, block, result);
}

/* A live block that the program frees. Lock held on entry, not on return. */
static CUresult free_live(struct pool *pool, struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    enum pool_memory memory = block->context->kind.memory;
    if (memory == POOL_MANAGED)
        stats_add(STATS_managed_frees, 1);
    free_count(pool, block);
    if (free_must_release(pool, block, current)) {
        if (atomic_load(&pool->captures))
            stats_add(STATS_capture_passed, 1);
        return free_past_pool(pool, block, current);
    }
    enum wait_reason reason;
    enum wait_choice kind = wait_choice(pool, block, &reason);
    if ((memory == POOL_HOST && PLANTED(host_memory_not_waited_for)) ||
        (memory == POOL_MANAGED && PLANTED(managed_not_waited_for)))
        kind = WAIT_OWED;
    if (kind == WAIT_NOW) {
        ledger_set_state(block, BLOCK_WAITING);
        return end_wait(pool, block, wait_make(pool, block->context, reason));
    }
    if (kind == WAIT_OWED)
        wait_owe(pool, block->context);
    free_keep(pool, block, kind);
    pool_unlock(pool);
    return CUDA_SUCCESS;
}

/* Whether the call that frees `memory` takes the block: cuMemFree takes managed memory, too. */
static bool is_freed_as(const struct pool_block *block, enum pool_memory memory) {
    return (block->context->kind.memory == POOL_HOST) == (memory == POOL_HOST);
}

bool free_is_not_permitted(struct pool *pool, enum pool_memory memory, CUcontext current) {
    return !current && !PLANTED(free_in_host_function) &&
           source_release(pool, memory, POOL_NOWHERE) == CUDA_ERROR_NOT_PERMITTED;
}

/* Frees in the current context, an owner if that is a green one's. Without a current context, or in
 * one that is gone, what becomes of it is the driver's. */
static CUresult free_in_owner(struct pool *pool, enum pool_memory memory, CUdeviceptr pointer) {
    CUcontext current;
    context_current(pool, &current);
    if (free_is_not_permitted(pool, memory, current))
        return CUDA_ERROR_NOT_PERMITTED;
    stats_add(STATS_free_calls, 1);
    if (pool->config.look_around)
        pool->config.look_around(pool);
    pool_lock(pool);
    struct pool_block *block = ledger_find(pool, pointer);
    bool ours = block && is_freed_as(block, memory);
    if (ours && block->state == BLOCK_LIVE)
        return free_live(pool, block, current);
    return free_no_live_block(pool, memory, pointer, ours ? block : NULL);
}

CUresult free_kind(struct pool *pool, enum pool_memory memory, CUdeviceptr pointer) {
    if (!pointer)
        return source_release(pool, memory, pointer);
    bool pushed = context_has_green(pool) && context_push_owner(pool);
    CUresult result = free_in_owner(pool, memory, pointer);
    if (pushed)
        pool_pop_device(pool, true);
    return result;
}
