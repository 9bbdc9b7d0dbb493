/* Frees that are not a program's cuMemFree: of host memory, in the order of a stream, in two steps
 * around a wait. */
#include "pool/free_parts.h"
#include "pool/suballocation.h"

CUresult pool_free_suballocation(struct pool *pool, CUdeviceptr pointer) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    capture_mode_exchange(pool, &mode);
    CUresult result = pool_free(pool, pointer);
    capture_mode_exchange(pool, &mode);
    return result;
}

bool pool_permits_no_free(struct pool *pool) {
    CUcontext current;
    context_current(pool, &current);
    return free_is_not_permitted(pool, POOL_DEVICE, current);
}

CUresult pool_refuses_frees(struct pool *pool) {
    CUcontext current;
    context_current(pool, &current);
    pool_lock(pool);
    bool healthy = context_is_known(pool, current) && !context_is_lost(pool, current);
    pool_unlock(pool);
    if (healthy || PLANTED(free_in_host_function))
        return CUDA_SUCCESS;
    CUresult result = source_release(pool, POOL_DEVICE, POOL_NOWHERE);
    return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
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
                (block->state != BLOCK_LIVE || !free_must_release(pool, block, current));
    bool live = ours && block->state == BLOCK_LIVE;
    if (live) {
        free_count(pool, block);
        /* Another context's streams are not in the order of this one's, whatever their handles. */
        free_defer(pool, block, block->context->handle == current ? stream : NULL, 0);
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
    bool pushed = context_has_green(pool) && context_push_owner(pool);
    CUcontext current;
    enum wait_reason reason;
    CUresult result = CUDA_SUCCESS;
    context_current(pool, &current);
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
    if (pushed)
        pool_pop_device(pool, true);
    return result;
}

/* A live block for whose free pool_free_wait has waited. Lock held on entry, not on return. */
static CUresult free_live_waited(struct pool *pool, struct pool_block *block, bool waited) {
    lock_check_held(LOCK_POOL);
    enum wait_reason reason;
    stats_add(STATS_free_calls, 1);
    free_count(pool, block);
    if (free_must_release(pool, block, block->context->handle))
        return free_past_pool(pool, block, block->context->handle);
    bool deferred = !waited || wait_choice(pool, block, &reason) == WAIT_DEFERRED;
    free_keep(pool, block, deferred ? WAIT_DEFERRED : WAIT_NOW);
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
