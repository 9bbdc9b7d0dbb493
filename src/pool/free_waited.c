/* Frees that are not the pool's own, or not so soon: past the pool, and behind a wait, after which
 * the block may be another's. */
#include "pool/free_parts.h"

/* Whether that thread may have the block although its free has waited: the driver's free would wait
 * once more, for later work. Lock held on entry and return, not in between. */
static bool may_relieve(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct context *context = block->context;
    if (!free_is_under_pressure(block))
        return false;
    pool_unlock_between(pool);
    bool quiet = quiet_ask(pool, context) == REST_QUIET;
    pool_lock(pool);
    return quiet;
}

/* Whether the driver refuses any free of this thread, whose current context the pool does not know:
 * it may have been destroyed. The address may by then be that of another thread's block, which must
 * be there for that thread's own free. Or the block is gone by now. Lock held on entry and return,
 * not in between. */
static bool is_refused(struct pool *pool, struct pool_block *block, CUresult *result) {
    lock_check_held(LOCK_POOL);
    CUdeviceptr pointer = block->pointer;
    enum pool_memory memory = block->context->kind.memory;
    pool_unlock(pool);
    *result = source_release(pool, memory, POOL_NOWHERE);
    pool_lock(pool);
    return *result != CUDA_ERROR_INVALID_VALUE || ledger_find(pool, pointer) != block ||
           block->state != BLOCK_LIVE;
}

CUresult free_past_pool(struct pool *pool, struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    CUresult result;
    bool refused = current && !context_is_known(pool, current) && is_refused(pool, block, &result);
    enum past past = refused ? PAST_DONE : free_past(pool, block, current, &result);
    if (past != PAST_DONE)
        free_keep(pool, block, past == PAST_KEPT ? WAIT_NOW : WAIT_DEFERRED);
    pool_unlock(pool);
    return result;
}

/* The context's end was announced during the wait. If it lives on after all, the block is the
 * driver's to free; if not, the driver says so. Of a region it frees all or nothing. */
static CUresult end_forgotten(struct pool *pool, struct pool_block *block) {
    CUdeviceptr pointer = block->pointer;
    enum pool_memory memory = block->context->kind.memory;
    bool in_region = !block->context->over && block->context->keeper->cuts;
    bool has_new_owner = ledger_find(pool, pointer) != NULL;
    ledger_recycle(pool, block);
    pool_unlock(pool);
    return has_new_owner || in_region ? CUDA_SUCCESS : source_release(pool, memory, pointer);
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

CUresult free_end_wait(struct pool *pool, struct pool_block *block, CUresult result) {
    lock_check_held(LOCK_POOL);
    bool fresh = result == CUDA_SUCCESS && managed_reset(pool, block);
    bool relieves = fresh && block->state != BLOCK_GONE && may_relieve(pool, block);
    bool gone = block->state == BLOCK_GONE;
    /* After a failed wait the driver says what its own free makes of this. */
    if (gone || !fresh || relieves || free_must_give_up(pool, block, block->context->handle))
        return free_past_pool_late(pool, block);
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
    return free_end_wait(pool, block, result);
}
