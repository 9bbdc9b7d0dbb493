/* Who uses a context by its handle: makes it current, or records in it. The program may end the
 * context on another thread meanwhile, and after that a driver need not even look at the handle.
 *
 * So a context is used under a visit, and its end waits for the visits that it finds; later ones do
 * not begin. Nothing that may wait for work is done in a visit: the end of a context need not wait
 * for that work, which may itself wait for the thread that ends the context. Whoever waits has made
 * the context current before, and lets it be ended then: calls in a context that is current and has
 * been destroyed are defined, and say CONTEXT_IS_DESTROYED [cuda.h, cuCtxDestroy]. */
#include "order/internal.h"

#include "base/clock.h"

/* A thread that does not come back from such a call was cancelled there. */
static const uint64_t LOST_NS = UINT64_C(5000000000);

/* Lock held. */
static bool begins_in(struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    bool begins = !context->closing && !context->ended;
    context->visits += begins;
    return begins;
}

bool order_visit_begins(struct order *order, CUcontext handle) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    bool begins = context && begins_in(context);
    lock_drop(&order->lock, LOCK_ORDER);
    return begins;
}

void order_visit_ends(struct order *order, CUcontext handle) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    if (context && context->visits) /* else it has been given up */
        context->visits--;
    lock_drop(&order->lock, LOCK_ORDER);
}

/* A passing error of the driver's must not keep a wait from being made. */
bool order_make_current(const struct order *order, CUcontext handle, bool *pushed) {
    lock_check_none();
    const struct driver *driver = order->driver;
    CUcontext current = NULL;
    *pushed = false;
    if (driver->ctx_get_current(&current) == CUDA_SUCCESS && current == handle)
        return true;
    *pushed = driver->ctx_push_current(handle) == CUDA_SUCCESS;
    if (!*pushed)
        *pushed = driver->ctx_push_current(handle) == CUDA_SUCCESS;
    return *pushed;
}

void order_make_former_current(const struct order *order, bool pushed) {
    lock_check_none();
    CUcontext popped;
    if (pushed && order->driver->ctx_pop_current(&popped) != CUDA_SUCCESS)
        order->driver->ctx_pop_current(&popped); /* the program goes on in its own context */
}

/* Also while its end or a release of it is under way, where that is this thread's current one. */
bool order_synchronize(struct order *order, CUcontext handle, CUresult *result) {
    lock_check_none();
    bool pushed = false;
    CUcontext current = NULL;
    *result = CUDA_ERROR_INVALID_CONTEXT;
    bool there = order->driver->ctx_get_current(&current) == CUDA_SUCCESS && current == handle;
    if (!there && order_visit_begins(order, handle)) {
        there = order_make_current(order, handle, &pushed);
        order_visit_ends(order, handle);
    }
    if (there)
        *result = order->driver->ctx_synchronize();
    order_make_former_current(order, pushed);
    return there;
}

bool order_await_decision(struct order *order, CUcontext handle) {
    lock_check_none();
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    struct order_context *context;
    lock_take(&order->lock, LOCK_ORDER);
    while ((context = order_find(order, handle)) && context->closing &&
           clock_ns(CLOCK_MONOTONIC) - began < LOST_NS)
        order_await(order, context);
    bool stays = context && !context->closing;
    lock_drop(&order->lock, LOCK_ORDER);
    return stays;
}

CUresult order_visit_fence(struct order *order, const struct order_fence *fence) {
    lock_check_held(LOCK_ORDER);
    struct order_context *context = fence->context;
    if (!begins_in(context)) {
        context->dismissed = true;
        return CUDA_SUCCESS;
    }
    lock_drop(&order->lock, LOCK_ORDER);
    CUresult result = fence_query(order, fence);
    lock_take(&order->lock, LOCK_ORDER);
    if (context->visits) /* else it has been given up */
        context->visits--;
    return result;
}

/* Events end with their context. The current one is in use by the program's own call. */
CUresult order_visit_until(struct order *order, const struct order_fence *fence) {
    lock_check_held(LOCK_ORDER);
    CUcontext current = NULL;
    CUresult result = CUDA_ERROR_NOT_READY;
    bool one = order_is_one(order);
    lock_drop(&order->lock, LOCK_ORDER);
    if (one || (order->driver->ctx_get_current(&current) == CUDA_SUCCESS &&
                current == fence->context->handle))
        result = fence_wait(order, fence);
    lock_take(&order->lock, LOCK_ORDER);
    while (result == CUDA_ERROR_NOT_READY &&
           (result = order_visit_fence(order, fence)) == CUDA_ERROR_NOT_READY)
        order_await(order, fence->context);
    return result;
}

void order_context_closes(struct order *order, CUcontext handle) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    if (context) {
        uint64_t began = clock_ns(CLOCK_MONOTONIC);
        context->closing++;
        context->users++;
        while (context->visits && clock_ns(CLOCK_MONOTONIC) - began < LOST_NS)
            order_await(order, context);
        context->visits = 0;
        order_leave(context);
    }
    lock_drop(&order->lock, LOCK_ORDER);
}

void order_context_stays(struct order *order, CUcontext handle) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    if (context && context->closing)
        context->closing--;
    if (context && !context->closing && context->dismissed)
        order_owe_again(order, context);
    lock_drop(&order->lock, LOCK_ORDER);
}
