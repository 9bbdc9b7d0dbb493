/* What an error of the driver's means for later calls: in a context that is lost, and once the
 * driver has shut down, nothing is pooled any more. */
#include "pool/internal.h"

enum { MOST_CONTEXTS = 64 };

/* Whether cuda.h says that the context is unusable after this error, or does not say what it is. */
static bool may_lose_context(CUresult error) {
    /* Their numbers, since older headers do not have them. */
    enum { CONTAINED = 226, TENSOR_MEMORY_LEAK = 721, EXTERNAL_DEVICE = 911 };
    switch ((int)error) {
    case CONTAINED:
    case TENSOR_MEMORY_LEAK:
    case EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
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

/* Nothing is pooled there any more, of whatever kind. */
static void lose_context(struct pool *pool, CUcontext handle) {
    struct context *context;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->handle == handle)
            context->broken = true;
    pool_unlock(pool);
}

/* Whether the current context goes on telling that it is lost. In relaxed mode, for which no call
 * is prohibited while a stream is being captured. */
static bool tells_loss(struct pool *pool) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    size_t available, total;
    gate_exchange_capture_mode(pool, &mode);
    CUresult result = pool->driver->mem_get_info(&available, &total);
    gate_exchange_capture_mode(pool, &mode);
    return may_lose_context(result) || PLANTED(loss_of_another);
}

/* Unless the context ends: its handle may be another's then. */
static void look_at(struct pool *pool, CUcontext handle) {
    struct context_push visit;
    if (!order_visit_begins(&pool->order, handle))
        return;
    bool lost = context_push_ending(pool, handle, &visit) && tells_loss(pool);
    context_pop(pool, &visit);
    if (lost)
        lose_context(pool, handle);
    order_visit_ends(&pool->order, handle);
}

/* The contexts in which anything was allocated and that are not lost, as far as they fit: how many.
 */
static int list_handles(struct pool *pool, CUcontext *handles) {
    const struct context *context;
    int count = 0;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link)
        if (!context->broken && context_is_first(pool, context) && count < MOST_CONTEXTS)
            handles[count++] = context->handle;
    pool_unlock(pool);
    return count;
}

/* An error alone does not say which context is lost: it may be a stream's, an event's or a device's
 * other one, or, in a green context, its primary one. So all are asked. */
void pool_note_error(struct pool *pool, CUresult error) {
    lock_check_none();
    CUcontext handles[MOST_CONTEXTS];
    pool_note_shutdown(pool, error);
    if (!may_lose_context(error))
        return;
    int count = list_handles(pool, handles);
    for (int i = 0; i < count; i++)
        look_at(pool, handles[i]);
}
