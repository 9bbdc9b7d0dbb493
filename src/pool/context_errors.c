/* What an error of the driver's means for later calls: in a context that is lost, and once the
 * driver has shut down, nothing is pooled any more. */
#include "pool/context_owners.h"

enum { AT_ONCE = 64 };

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

/* Beside errors the exchange may fail, too: that must not leave the thread in another mode. */
static void exchange_mode(struct pool *pool, CUstreamCaptureMode *mode) {
    if (capture_mode_exchange(pool, mode) != CUDA_SUCCESS)
        capture_mode_exchange(pool, mode);
}

/* Whether the current context goes on telling that it is lost. In relaxed mode, for which no call
 * is prohibited while a stream is being captured. */
static bool tells_loss(struct pool *pool) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    size_t available, total;
    exchange_mode(pool, &mode);
    CUresult result = pool->driver->mem_get_info(&available, &total);
    exchange_mode(pool, &mode);
    return may_lose_context(result) || PLANTED(loss_of_another);
}

/* Whether the context is found to be lost. One that ends is not asked: its handle may be another's
 * then. */
static bool look_at(struct pool *pool, CUcontext handle) {
    struct context_push visit;
    if (!order_visit_begins(&pool->order, handle))
        return false;
    bool lost = context_push_ending(pool, handle, &visit) && tells_loss(pool);
    context_pop(pool, &visit);
    if (lost)
        lose_context(pool, handle);
    order_visit_ends(&pool->order, handle);
    return lost;
}

/* Lists the contexts in which anything was allocated and that are not lost, behind the first `from`
 * and as far as they fit. Returns how many. */
static int list_handles(struct pool *pool, int from, CUcontext *handles) {
    const struct context *context;
    int seen = 0, count = 0;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->broken || !context_is_first(pool, context))
            continue;
        if (seen++ >= from && count < AT_ONCE)
            handles[count++] = context->handle;
    }
    pool_unlock(pool);
    return count;
}

static void look_at_all(struct pool *pool) {
    CUcontext handles[AT_ONCE];
    int healthy = 0, count;
    do {
        count = list_handles(pool, healthy, handles);
        for (int i = 0; i < count; i++)
            if (look_at(pool, handles[i]))
                atomic_store(&pool->vain_errors, 0);
            else
                healthy++; /* the lost ones are listed no more */
    } while (count == AT_ONCE);
}

/* A program may go on asking for the state of what it has lost, and there may be many contexts: the
 * more such errors in a row have told of nothing new, the fewer of them are looked into. */
static bool is_worth_it(struct pool *pool) {
    enum { SELDOM = 64 };
    unsigned vain = atomic_fetch_add(&pool->vain_errors, 1);
    return !(vain & (vain - 1)) || vain % SELDOM == 0;
}

/* *handle becomes the context whose memory is used there, as far as that is known: a green
 * context's is its primary one's, and is lost with it. */
static bool is_known_as_lost(struct pool *pool, CUcontext *handle) {
    pool_lock(pool);
    CUcontext owner = context_owner(pool, *handle);
    *handle = owner ? owner : *handle;
    bool lost = context_is_lost(pool, *handle);
    pool_unlock(pool);
    return lost;
}

/* An error alone does not say which context is lost: it may be a stream's, an event's or a device's
 * other one, or, in a green context, its primary one. So all are asked, unless the current one
 * explains it. */
void pool_note_error(struct pool *pool, CUresult error) {
    lock_check_none();
    CUcontext current = NULL;
    pool_note_shutdown(pool, error);
    if (!may_lose_context(error))
        return;
    pool->driver->ctx_get_current(&current);
    if (is_known_as_lost(pool, &current) || look_at(pool, current))
        return;
    if (error != CUDA_ERROR_CONTEXT_IS_DESTROYED && is_worth_it(pool))
        look_at_all(pool);
}
