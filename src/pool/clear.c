/* Clears memory before it is used again (POOLCUDA_ZERO). */
#include "pool/internal.h"

#include <string.h>

/* Where no stream can be created: this does wait for later work. Gate entered. Lock not held. */
static CUresult clear_in_legacy(struct pool *pool, CUdeviceptr pointer, size_t bytes) {
    lock_check_none();
    wait_precedes_own_work(pool);
    CUresult result = pool->driver->memset_d8(pointer, 0, bytes);
    return result == CUDA_SUCCESS ? pool->driver->ctx_synchronize() : result;
}

/* The memset is in a stream of the pool's own, behind what the context's frees owe and behind
 * nothing else: what was submitted later may wait for the very thread that allocates. The host
 * waits for that memset. So whatever uses the memory next comes after it: in any stream, thread,
 * context, device or process, and on the host itself. *fence: what is to be waited for, unless it
 * is NULL. Gate entered. Lock not held. */
static CUresult submit_clearing(struct pool *pool, struct context *context, CUdeviceptr pointer,
                                size_t bytes, struct order_fence **fence) {
    lock_check_none();
    CUstream own = order_own_stream(&pool->order, context->handle);
    if (!own || !pool->driver->memset_d8_async)
        return clear_in_legacy(pool, pointer, bytes);
    if (!PLANTED(clear_before_free))
        wait_precedes_own_stream(pool, context, own);
    CUresult result = pool->driver->memset_d8_async(pointer, 0, bytes, own);
    if (result == CUDA_SUCCESS && !order_fence_own(&pool->order, context->handle, own, fence))
        result = pool->driver->stream_synchronize(own);
    return result;
}

/* The processor writes to the host's, which no work uses any more. A capture may begin elsewhere
 * meanwhile: in relaxed mode a wait does it no harm [cuda.h, cuThreadExchangeStreamCaptureMode]. */
bool clear_memory(struct pool *pool, struct context *context, CUdeviceptr pointer, size_t bytes) {
    lock_check_none();
    struct order_fence *fence = NULL;
    if (source_is_hosts(&context->kind)) {
        memset((void *)(uintptr_t)pointer, 0, bytes);
        return true;
    }
    if (!pool_gate_enter(pool))
        return false;
    CUresult result = submit_clearing(pool, context, pointer, bytes, &fence);
    pool_gate_leave(pool);
    if (fence) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
        capture_mode_exchange(pool, &mode);
        result = order_fence_wait(&pool->order, fence);
        capture_mode_exchange(pool, &mode);
    }
    pool_note_error(pool, result);
    return true;
}

bool clear_block(struct pool *pool, struct pool_block *block, CUdeviceptr *pointer) {
    lock_check_held(LOCK_POOL);
    struct context *context = block->context;
    CUdeviceptr address = block->pointer;
    size_t bytes = block->requested;
    pool_unlock(pool);
    if (clear_memory(pool, context, address, bytes)) {
        *pointer = address;
        return true;
    }
    pool_lock(pool);
    if (!context->ended && ledger_find(pool, address) == block && block->state == BLOCK_LIVE) {
        take_count_hits(context, block->site, -1);
        stats_grow(&block->site->stats->allocated_bytes, 0 - bytes);
        ledger_make_idle(pool, block);
    }
    return false;
}
