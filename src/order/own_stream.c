/* Streams of the pool's own, one for each context: they are in no context's list, as nothing of the
 * program's goes there. They end with their contexts. */
#include "order/internal.h"

#include "base/futex.h"

/* The stream is the context's from now on, or destroyed if that has another, or has ended. */
static CUstream keep(struct order *order, CUcontext handle, CUstream made) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    if (context && !context->own) {
        context->own = made;
        made = NULL;
    }
    CUstream own = context ? context->own : NULL;
    lock_drop(&order->lock, LOCK_ORDER);
    if (made)
        order->driver->stream_destroy(made);
    return own;
}

CUstream order_own_stream(struct order *order, CUcontext handle) {
    const struct driver *driver = order->driver;
    CUstream made = NULL;
    lock_take(&order->lock, LOCK_ORDER);
    const struct order_context *context = order_find(order, handle);
    CUstream own = context ? context->own : NULL;
    lock_drop(&order->lock, LOCK_ORDER);
    if (own || !driver->stream_create || !driver->stream_destroy ||
        driver->stream_create(&made, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return own;
    return keep(order, handle, made);
}

/* Lock held. */
static struct order_stream describe(struct order *order, struct order_context *context,
                                    CUstream own) {
    lock_check_held(LOCK_ORDER);
    return (struct order_stream){
        .handle = own, .context = context, .id = ++order->streams, .non_blocking = true};
}

bool order_puts_own_behind(struct order *order, CUcontext handle, CUstream own) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    struct order_context *context = order_find(order, handle);
    bool behind = true;
    if (context && context->owes) {
        const struct order_stream stream = describe(order, context, own);
        context->users++;
        behind = order_fence_all(order) && !context->recording &&
                 order_put_behind(order, context, &stream);
        order_leave(context);
    }
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return behind;
}

bool order_fence_own(struct order *order, CUcontext handle, CUstream own,
                     struct order_fence **fence) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    *fence = NULL;
    if (context) {
        const struct order_stream stream = describe(order, context, own);
        *fence = order_record_in_stream(order, context, &stream);
    }
    lock_drop(&order->lock, LOCK_ORDER);
    return *fence;
}

void order_await_own(struct order *order, CUcontext handle) {
    lock_check_none();
    enum { LOOKS = 1000 }; /* what is behind no unpaid wait is over in a few */
    struct order_fence *fence = NULL;
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    if (context && context->own) {
        const struct order_stream stream = describe(order, context, context->own);
        fence = order_record_in_stream(order, context, &stream);
    }
    lock_drop(&order->lock, LOCK_ORDER);
    if (!fence)
        return;
    for (int i = 0; i < LOOKS && fence_query(order, fence) == CUDA_ERROR_NOT_READY &&
                    !(atomic_load(&order_word) & ORDER_OWED);
         i++)
        futex_pause();
    order_fence_end(order, fence);
}
