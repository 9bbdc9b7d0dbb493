#include "order/fence.h"

#include "base/lock.h"
#include "base/planted.h"

#include <stdlib.h>

struct order_fence *fence_new(struct order *order, struct order_context *context, uint64_t number) {
    lock_check_none();
    lock_take(&order->lock, LOCK_ORDER);
    struct order_fence *fence = context->spare_fence;
    context->spare_fence = NULL;
    lock_drop(&order->lock, LOCK_ORDER);
    if (!fence)
        fence = malloc(sizeof *fence);
    if (fence)
        *fence = (struct order_fence){.context = context, .number = number, .users = 1};
    return fence;
}

/* An event of the context, which is current. Lock not held. */
static struct order_event *take_event(struct order *order, struct order_context *context) {
    lock_check_none();
    lock_take(&order->lock, LOCK_ORDER);
    struct order_event *event = context->spare;
    if (event)
        context->spare = event->next;
    lock_drop(&order->lock, LOCK_ORDER);
    if (event)
        return event;
    event = calloc(1, sizeof *event);
    if (event &&
        order->driver->event_create(&event->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        free(event);
        return NULL;
    }
    return event;
}

bool fence_add(struct order *order, struct order_fence *fence, const struct order_stream *stream) {
    lock_check_none();
    const struct driver *driver = order->driver;
    struct order_event *event = take_event(order, fence->context);
    if (!event)
        return false;
    int part = fence->count++;
    fence->parts[part].event = event;
    if (!stream)
        return driver->ctx_record_event(fence->context->handle, event->event) == CUDA_SUCCESS;
    fence->parts[part].stream = stream->id;
    fence->parts[part].legacy = stream->handle == CU_STREAM_LEGACY;
    fence->parts[part].blocking = !stream->non_blocking && !fence->parts[part].legacy;
    return driver->event_record(event->event, stream->handle) == CUDA_SUCCESS;
}

CUresult fence_wait(const struct order *order, const struct order_fence *fence) {
    lock_check_none();
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < fence->count && result == CUDA_SUCCESS; i++)
        result = order->driver->event_synchronize(fence->parts[i].event->event);
    return result;
}

CUresult fence_query(const struct order *order, const struct order_fence *fence) {
    lock_check_none();
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < fence->count && result == CUDA_SUCCESS; i++)
        result = order->driver->event_query(fence->parts[i].event->event);
    return result;
}

/* Whether the stream's work comes after the part's by itself. */
static bool is_in_order(const struct order_fence *fence, int part,
                        const struct order_stream *stream) {
    if (fence->parts[part].stream == stream->id)
        return true;
    if (stream->handle == CU_STREAM_LEGACY)
        return fence->parts[part].blocking;
    return fence->parts[part].legacy && !stream->non_blocking;
}

bool fence_is_in(const struct order_fence *fence, const struct order_stream *stream) {
    for (int i = 0; i < fence->count; i++)
        if (!is_in_order(fence, i, stream))
            return false;
    return true;
}

bool fence_order(const struct order *order, const struct order_fence *fence,
                 const struct order_stream *stream) {
    lock_check_none();
    if (PLANTED(stream_not_ordered))
        return true;
    for (int i = 0; i < fence->count; i++)
        if (!is_in_order(fence, i, stream) &&
            order->driver->stream_wait_event(stream->handle, fence->parts[i].event->event, 0) !=
                CUDA_SUCCESS)
            return false;
    return true;
}

void fence_drop(struct order_fence *fence) {
    lock_check_held(LOCK_ORDER);
    if (!fence || --fence->users)
        return;
    struct order_context *context = fence->context;
    for (int i = 0; i < fence->count; i++) {
        fence->parts[i].event->next = context->spare;
        context->spare = fence->parts[i].event;
    }
    if (context->spare_fence)
        free(fence);
    else
        context->spare_fence = fence;
}
