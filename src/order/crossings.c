/* Work of one context that may use memory of another, such as a copy between them. A free in the
 * other one waits for it, and for what comes before it in its stream; not for what was submitted
 * later, nor for the context's other streams. So a fence is recorded behind each call that submits
 * such work, in its stream. The last one of a stream stands for those before. */
#include "order/internal.h"

/* So many fences of a context are kept without a look at which have passed. */
enum { KEPT = 8 };

/* Another thread may have dropped it. Lock held. */
static void drop_if_there(struct order *order, const struct order_fence *fence) {
    lock_check_held(LOCK_ORDER);
    struct order_fence **place = &fence->context->crossings;
    while (*place && *place != fence)
        place = &(*place)->next;
    if (*place)
        order_drop_crossing(order, place);
}

/* Adds the fence, in place of the one in that stream; 0: of no stream. Returns how many there are.
 * Lock held. */
static int put(struct order *order, struct order_fence *fence, uint64_t stream) {
    lock_check_held(LOCK_ORDER);
    struct order_fence **place = &fence->context->crossings;
    int count = 1;
    while (*place)
        if (stream && (*place)->number == stream) {
            order_drop_crossing(order, place);
        } else {
            place = &(*place)->next;
            count++;
        }
    fence->number = stream;
    *place = fence;
    atomic_fetch_add(&order->crossings, 1);
    return count;
}

/* Drops what has passed, from the first on. Lock held on entry and return, not in between. */
static void drop_passed(struct order *order, struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    struct order_fence *fence;
    bool passed = true;
    while (passed && (fence = context->crossings)) {
        fence->users++;
        passed = order_visit_fence(order, fence) != CUDA_ERROR_NOT_READY;
        if (passed)
            drop_if_there(order, fence);
        fence_drop(fence);
    }
}

/* The stream, as far as is known: where streams are not tracked it has no id, and no other fence
 * stands for the one in it. Lock held on entry and return, not in between. */
static struct order_stream find(struct order *order, CUstream handle, CUcontext in) {
    lock_check_held(LOCK_ORDER);
    struct order_context *context;
    const struct order_stream *found = order_find_stream(order, handle, &context);
    struct order_stream stream = {.handle = handle, .context = order_find(order, in)};
    if (found)
        stream = *found;
    if (handle == CU_STREAM_PER_THREAD) /* each thread has another one */
        stream.id = 0;
    return stream;
}

bool order_crossed(struct order *order, CUstream handle) {
    CUcontext in = order_meet_context_of(order, handle);
    lock_take(&order->lock, LOCK_ORDER);
    struct order_stream stream = find(order, handle, in);
    struct order_context *context = stream.context;
    struct order_fence *fence = context ? order_record_in_stream(order, context, &stream) : NULL;
    if (fence && context->ended)
        fence_drop(fence);
    else if (fence && put(order, fence, stream.id) > KEPT)
        drop_passed(order, context);
    if (fence)
        order_leave(context);
    lock_drop(&order->lock, LOCK_ORDER);
    return fence != NULL;
}

bool order_wait_for_crossings(struct order *order) {
    enum { MANY = 64 };
    struct order_fence *fences[MANY];
    int count = 0;
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        for (struct order_fence *fence = context->crossings; fence; fence = fence->next) {
            if (count < MANY) {
                fence->users++;
                context->users++;
                fences[count] = fence;
            }
            count++;
        }
    for (int i = 0; i < count && i < MANY; i++) {
        context = fences[i]->context;
        order_visit_until(order, fences[i]); /* an error is the other context's own */
        drop_if_there(order, fences[i]);
        fence_drop(fences[i]);
        order_leave(context);
    }
    lock_drop(&order->lock, LOCK_ORDER);
    return count <= MANY;
}
