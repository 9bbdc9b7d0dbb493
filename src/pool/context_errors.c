/* What an error of the driver's means for later calls: in a context that is lost, and once the
 * driver has shut down, nothing is pooled any more. */
#include "pool/context_owners.h"
#include "pool/internal.h"

/* Whether cuda.h says that the context is unusable after this error. */
static bool loses_context(CUresult error) {
    /* Their numbers, since older headers do not have them. */
    enum { CONTAINED = 226, TENSOR_MEMORY_LEAK = 721, EXTERNAL_DEVICE = 911 };
    switch ((int)error) {
    case CONTAINED:
    case TENSOR_MEMORY_LEAK:
    case EXTERNAL_DEVICE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_MPS_CLIENT_TERMINATED:
        return true;
    default:
        return false;
    }
}

static bool is_current(struct pool *pool, CUcontext handle) {
    CUcontext current = NULL;
    pool->driver->ctx_get_current(&current);
    return current == handle || PLANTED(loss_of_another);
}

/* One call's error alone says nothing of the current context: it may be that of a stream's, an
 * event's or a device's other context. One that is lost goes on answering so. */
static bool is_lost(struct pool *pool, CUcontext handle, CUresult error) {
    size_t available, total;
    bool loses = loses_context(error);
    if (!loses && error != CUDA_ERROR_UNKNOWN)
        return false;
    if (!is_current(pool, handle) || !pool_gate_enter(pool)) /* it cannot be asked */
        return loses;
    CUresult again = pool->driver->mem_get_info(&available, &total);
    pool_gate_leave(pool);
    return again != CUDA_SUCCESS;
}

/* Nothing is pooled there any more, of whatever kind; with NULL, in all primary contexts. Returns
 * whether the pool has such a context. Lock held. */
static bool lose_context(struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    bool found = false;
    LIST_FOREACH (context, &pool->contexts, link)
        if (handle ? context->handle == handle : !context->created)
            context->broken = found = true;
    return found;
}

/* A green context is lost with its primary one, which the driver may not name any more. Lock not
 * held. */
static void lose_owner(struct pool *pool, CUcontext handle) {
    lock_check_none();
    bool green = atomic_load(&pool->lasting[WAIT_REASON_green]);
    CUcontext asked = green && is_current(pool, handle) ? pool_owner_of_current(pool) : NULL;
    pool_lock(pool);
    CUcontext owner = context_owner(pool, handle);
    owner = owner ? owner : asked;
    if (!lose_context(pool, owner ? owner : handle) && green && !owner)
        lose_context(pool, NULL);
    pool_unlock(pool);
}

void context_note_error(struct pool *pool, struct context *context, CUresult result) {
    lock_check_none();
    if (result == CUDA_ERROR_DEINITIALIZED) {
        atomic_store(&pool->down, true);
        pool_grant_anew(pool);
    }
    CUcontext handle = context ? context->handle : NULL;
    if (!context || !is_lost(pool, handle, result))
        return;
    /* That a context is destroyed may be said of the thread's own instead. */
    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED && !is_current(pool, handle))
        return;
    pool_lock(pool);
    lose_context(pool, handle);
    context->broken = true; /* it may have ended meanwhile */
    pool_unlock(pool);
}

void context_note_free_error(struct pool *pool, struct context *context, CUresult result) {
    if (result == CUDA_SUCCESS)
        return;
    context_note_error(pool, is_current(pool, context->handle) ? context : NULL, result);
}

void context_note_error_of(struct pool *pool, CUcontext handle, CUresult error) {
    if (!is_lost(pool, handle, error)) {
        context_note_error(pool, NULL, error);
        return;
    }
    if (error != CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        lose_owner(pool, handle);
        return;
    }
    pool_lock(pool); /* a green one's primary context lives on */
    lose_context(pool, handle);
    pool_unlock(pool);
}

void pool_note_error(struct pool *pool, CUresult error) {
    CUcontext handle = NULL;
    pool->driver->ctx_get_current(&handle);
    context_note_error_of(pool, handle, error);
}
