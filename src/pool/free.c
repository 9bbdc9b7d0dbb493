/* Frees. What becomes of a live block that the program frees:
 *
 *  1. The thread's cache keeps it, without the pool's lock, while the wait of the free is owed
 *     already or left to a fence (cache_quick.h).
 *  2. It is released at once (must_be_released): it is tainted, a stream is captured, its context
 *     had a sticky error, its device is under pressure, or the driver has shut down.
 *  3. Else wait_choice says what becomes of the wait that the native free makes for the device's
 *     work: WAIT_NOW makes it here, and the block is then idle; WAIT_OWED leaves it to the next
 *     call that could show the difference (wait.c), and the block is idle at once; WAIT_DEFERRED
 *     lets a fence stand for it (fence.c), behind which the block becomes idle.
 *  4. What the kept block makes too much is given up: the keeper's surplus of the site, what
 *     exceeds the bounds, what decay says was not needed of late (keep).
 *
 * A pointer without a record is the driver's to free. A second free is answered INVALID_VALUE. */
#include "pool/cache_quick.h"
#include "pool/suballocation.h"

#include "planted.h"

/* Defers the block: work may still use it. freed_in is fence_defer's, freed_by the block's. */
static void defer(struct pool *pool, struct pool_block *block, CUstream freed_in,
                  uint32_t freed_by) {
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

/* Keeps a block and gives up what is then too much. wait: WAIT_DEFERRED: work may still use it, and
 * only a fence will tell; WAIT_NOW: the wait of its free has been made; WAIT_OWED: it is owed. Lock
 * held on entry and return, not in between. */
static void keep(struct pool *pool, struct pool_block *block, enum wait_choice wait) {
    lock_check_held(LOCK_POOL);
    struct context *own = block->context;
    struct site *site = block->site;
    struct release_list releases = {.device = own->device, .own = own};
    releases.waits = wait == WAIT_OWED ? RELEASE_WAITS_ONCE : RELEASE_IF_QUIET;
    if (wait == WAIT_DEFERRED) {
        defer(pool, block, NULL, thread_number());
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

/* Whether a live block must really be freed, captures and pressure aside. Lock held. */
static bool must_be_given_up(struct pool *pool, const struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    if (is_suballocation(block))
        return suballocation_passes(pool, block, current);
    bool tainted = block->taints && !PLANTED(taint_recycled);
    return tainted || block->context->broken || block->context->releases ||
           atomic_load(&pool->down) || !context_is_known(pool, current);
}

/* Whether another thread looks for memory that the driver could have of this block. Lock held. */
static bool is_under_pressure(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return block->context->device->pressure && !is_suballocation(block);
}

/* Whether that thread may have the block although its free has waited: the driver's free would wait
 * once more, for later work. Lock held on entry and return, not in between. */
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

/* Whether a live block must really be freed now. Lock held. */
static bool must_be_released(struct pool *pool, const struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    return atomic_load(&pool->captures) || is_under_pressure(block) ||
           must_be_given_up(pool, block, current);
}

/* Lock held on entry, not on return. */
static CUresult free_past_pool(struct pool *pool, struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    CUresult result;
    enum past past = free_past(pool, block, current, &result);
    if (past != PAST_DONE)
        keep(pool, block, past == PAST_KEPT ? WAIT_NOW : WAIT_DEFERRED);
    pool_unlock(pool);
    return result;
}

/* The context's end was announced during the wait. If it lives on after all, the block is the
 * driver's to free; if not, the driver says so. */
static CUresult end_forgotten(struct pool *pool, struct pool_block *block) {
    CUdeviceptr pointer = block->pointer;
    enum pool_memory memory = block->context->kind.memory;
    bool has_new_owner = ledger_find(pool, pointer) != NULL;
    ledger_recycle(pool, block);
    pool_unlock(pool);
    return has_new_owner ? CUDA_SUCCESS : source_release(pool, memory, pointer);
}

/* What a free that has begun to wait is, if it cannot be the pool's own. A capture that forbids it
 * has begun meanwhile: natively the free was in the driver by then, which neither fails for that
 * nor spoils the capture. Lock held on entry, not on return. */
static CUresult free_past_pool_late(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    pool_unlock_between(pool);
    gate_exchange_capture_mode(pool, &mode);
    pool_lock(pool);
    CUresult result;
    if (block->state == BLOCK_GONE) {
        result = end_forgotten(pool, block);
    } else {
        ledger_set_state(block, BLOCK_LIVE);
        result = free_past_pool(pool, block, block->context->handle);
    }
    gate_exchange_capture_mode(pool, &mode);
    return result;
}

/* A block whose free has waited, with that result. Lock held on entry, not on return. */
static CUresult end_wait(struct pool *pool, struct pool_block *block, CUresult result) {
    lock_check_held(LOCK_POOL);
    bool fresh = result == CUDA_SUCCESS && managed_reset(pool, block);
    bool relieves = fresh && block->state != BLOCK_GONE && may_relieve(pool, block);
    bool gone = block->state == BLOCK_GONE;
    /* After a failed wait the driver says what its own free makes of this. */
    if (gone || !fresh || relieves || must_be_given_up(pool, block, block->context->handle))
        return free_past_pool_late(pool, block);
    ledger_set_state(block, BLOCK_LIVE);
    keep(pool, block, WAIT_NOW);
    pool_unlock(pool);
    return CUDA_SUCCESS;
}

CUresult pool_free(struct pool *pool, CUdeviceptr pointer) {
    return quick_free(pool, pointer, true) == QUICK_DONE ? CUDA_SUCCESS
                                                         : pool_free_rest(pool, pointer);
}

CUresult pool_free_suballocation(struct pool *pool, CUdeviceptr pointer) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gate_exchange_capture_mode(pool, &mode);
    CUresult result = pool_free(pool, pointer);
    gate_exchange_capture_mode(pool, &mode);
    return result;
}

/* A live block that the program frees, on the long way. Lock held. */
static void count_free(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    const struct context *context = block->context;
    cache_merge_counts_of(pool, block);
    source_note_size(context, block->site, block->requested);
    context->device->frees++;
}

/* The rest of the free of a WAITING block whose wait has ended with that result. Lock held on
 * entry, not on return. */
static CUresult free_waited_for(struct pool *pool, struct pool_block *block, CUresult result) {
    lock_check_held(LOCK_POOL);
    stats_add(STATS_free_calls, 1);
    if (block->state != BLOCK_GONE)
        count_free(pool, block);
    return end_wait(pool, block, result);
}

/* Whether the call that frees `memory` takes the block: cuMemFree takes managed memory, too. */
static bool is_freed_as(const struct pool_block *block, enum pool_memory memory) {
    return (block->context->kind.memory == POOL_HOST) == (memory == POOL_HOST);
}

/* Whether the driver permits this thread no free, given its context. In a host function it has none
 * that the driver tells of; natively a thread without one may free. */
static bool permits_no_free(struct pool *pool, enum pool_memory memory, CUcontext current) {
    return !current && !PLANTED(free_in_host_function) &&
           source_release(pool, memory, POOL_NOWHERE) == CUDA_ERROR_NOT_PERMITTED;
}

bool pool_permits_no_free(struct pool *pool) {
    CUcontext current;
    if (context_current(pool, &current) != CUDA_SUCCESS)
        current = NULL;
    return permits_no_free(pool, POOL_DEVICE, current);
}

/* A live block that the program frees. Lock held on entry, not on return. */
static CUresult free_live(struct pool *pool, struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    enum pool_memory memory = block->context->kind.memory;
    if (memory == POOL_MANAGED)
        stats_add(STATS_managed_frees, 1);
    count_free(pool, block);
    if (must_be_released(pool, block, current)) {
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
    keep(pool, block, kind);
    pool_unlock(pool);
    return CUDA_SUCCESS;
}

/* memory: POOL_HOST for cuMemFreeHost, POOL_DEVICE for cuMemFree. */
static CUresult free_kind(struct pool *pool, enum pool_memory memory, CUdeviceptr pointer) {
    if (!pointer)
        return source_release(pool, memory, pointer);
    /* Without a current context, or in one that is gone, what becomes of it is the driver's. */
    CUcontext current;
    if (context_current(pool, &current) != CUDA_SUCCESS)
        current = NULL;
    if (permits_no_free(pool, memory, current))
        return CUDA_ERROR_NOT_PERMITTED;
    stats_add(STATS_free_calls, 1);
    if (pool->config.look_around)
        pool->config.look_around(pool);
    pool_lock(pool);
    struct pool_block *block = ledger_find(pool, pointer);
    bool ours = block && is_freed_as(block, memory);
    if (ours && block->state == BLOCK_LIVE)
        return free_live(pool, block, current);
    /* During a release the address may be one of the next primary context's. */
    bool again = ours && !block->context->releases;
    pool_unlock(pool);
    stats_add(again ? STATS_free_double : STATS_free_unknown, 1);
    return source_release(pool, memory, again ? POOL_NOWHERE : pointer);
}

CUresult pool_free_rest(struct pool *pool, CUdeviceptr pointer) {
    CUresult result;
    /* Where something is owed that free's wait may be none for this context alone. */
    struct pool_block *waited;
    if (!atomic_load(&order_word) && cache_free_last(pool, pointer, &waited, &result))
        return waited ? free_waited_for(pool, waited, result) : result;
    return free_kind(pool, POOL_DEVICE, pointer);
}

CUresult pool_free_host(struct pool *pool, void *pointer) {
    stats_add(STATS_host_frees, pointer != NULL);
    return free_kind(pool, POOL_HOST, (CUdeviceptr)(uintptr_t)pointer);
}

/* Gives nothing up, since the driver would wait: the next free that is not in stream order does, or
 * an allocation. */
bool free_in_stream(struct pool *pool, CUdeviceptr pointer, CUstream stream, CUresult *result) {
    CUcontext current;
    if (!pointer || context_current(pool, &current) != CUDA_SUCCESS)
        return false;
    pool_lock(pool);
    struct pool_block *block = ledger_find(pool, pointer);
    bool ours = block && block->context->kind.memory == POOL_DEVICE && !pool->streams_lost &&
                (block->state != BLOCK_LIVE || !must_be_released(pool, block, current));
    bool live = ours && block->state == BLOCK_LIVE;
    if (live) {
        count_free(pool, block);
        /* Another context's streams are not in the order of this one's, whatever their handles. */
        defer(pool, block, block->context->handle == current ? stream : NULL, 0);
    }
    pool_unlock(pool);
    stats_add(STATS_free_calls, ours);
    stats_add(STATS_free_kept, live);
    stats_add(STATS_free_double, ours && !live);
    *result = live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return ours;
}

/* Whether the block may stay live while its free waits. Lock held. */
static bool can_wait_alone(struct pool *pool, const struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    return block && block->state == BLOCK_LIVE && !atomic_load(&pool->captures) &&
           !suballocation_passes(pool, block, current) && context_is_known(pool, current);
}

CUresult pool_free_wait(struct pool *pool, CUdeviceptr pointer) {
    CUcontext current;
    enum wait_reason reason;
    CUresult result = CUDA_SUCCESS;
    if (context_current(pool, &current) != CUDA_SUCCESS)
        current = NULL;
    pool_lock(pool);
    struct pool_block *block = ledger_find(pool, pointer);
    if (!can_wait_alone(pool, block, current)) {
        result = CUDA_ERROR_NOT_SUPPORTED;
    } else if (wait_choice(pool, block, &reason) != WAIT_DEFERRED) {
        ledger_set_state(block, BLOCK_WAITING);
        result = wait_make(pool, block->context, reason);
        if (block->state == BLOCK_GONE) { /* forgotten meanwhile, with its context */
            ledger_recycle(pool, block);
            result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        } else {
            ledger_set_state(block, BLOCK_LIVE);
        }
    }
    pool_unlock(pool);
    return result;
}

/* A live block for whose free pool_free_wait has waited. Lock held on entry, not on return. */
static CUresult free_live_waited(struct pool *pool, struct pool_block *block, bool waited) {
    lock_check_held(LOCK_POOL);
    enum wait_reason reason;
    stats_add(STATS_free_calls, 1);
    count_free(pool, block);
    if (must_be_released(pool, block, block->context->handle))
        return free_past_pool(pool, block, block->context->handle);
    bool deferred = !waited || wait_choice(pool, block, &reason) == WAIT_DEFERRED;
    keep(pool, block, deferred ? WAIT_DEFERRED : WAIT_NOW);
    pool_unlock(pool);
    return CUDA_SUCCESS;
}

CUresult pool_free_waited(struct pool *pool, CUdeviceptr pointer, bool waited) {
    pool_lock(pool);
    struct pool_block *block = ledger_find(pool, pointer);
    if (block && block->state == BLOCK_LIVE)
        return free_live_waited(pool, block, waited);
    pool_unlock(pool);
    return CUDA_ERROR_INVALID_VALUE;
}
