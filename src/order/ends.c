/* Ends: of contexts, of their streams, and of what their frees owe. */
#include "order/internal.h"
#include "order/noted.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void order_forget_stream(struct order *order, struct order_stream *stream) {
    lock_check_held(LOCK_ORDER);
    noted_empty();
    order_set_busy(stream, false);
    LIST_REMOVE(stream, link);
    HASH_DELETE(by_handle, order->by_handle, stream);
    if (!order_has_streams(stream->context)) /* what goes there is noted no more */
        order_set_busy(&stream->context->legacy, true);
    free(stream);
}

void order_clear(struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    context->owes = context->unfenced = false;
    if (context->fence == context->owed) {
        fence_drop(context->fence);
        context->fence = NULL;
    }
    fence_drop(context->owed);
    context->owed = NULL;
}

void order_set_all_busy(struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    struct order_stream *stream;
    order_set_busy(&context->legacy, true);
    order_set_busy(&context->per_thread, context->has_per_thread);
    LIST_FOREACH (stream, &context->streams, link)
        order_set_busy(stream, true);
}

void order_owe_again(struct order *order, struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    context->dismissed = false;
    context->owes = context->unfenced = true;
    order_set_all_busy(context);
    order_tell(order);
}

void order_drop_crossing(struct order *order, struct order_fence **place) {
    lock_check_held(LOCK_ORDER);
    struct order_fence *fence = *place;
    *place = fence->next;
    atomic_fetch_sub(&order->crossings, 1);
    fence_drop(fence);
}

/* The events have died with the context. Lock held. */
static void destroy(struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    struct order_event *event;
    while ((event = context->spare)) {
        context->spare = event->next;
        free(event);
    }
    free(context->spare_fence);
    free(context);
}

void order_leave(struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    if (!--context->users && context->ended)
        destroy(context);
}

void order_await(struct order *order, struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    static const struct timespec step = {.tv_nsec = 20000};
    context->users++;
    lock_drop(&order->lock, LOCK_ORDER);
    syscall(SYS_nanosleep, &step, NULL); /* libc's function may end a cancelled thread */
    lock_take(&order->lock, LOCK_ORDER);
    order_leave(context);
}

/* Lock held. */
static void end(struct order *order, struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    order_clear(context);
    while (context->crossings)
        order_drop_crossing(order, &context->crossings);
    fence_drop(context->fence);
    context->fence = NULL;
    struct order_stream *stream;
    while ((stream = LIST_FIRST(&context->streams)))
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that is forgotten is in the list no more
        order_forget_stream(order, stream);
    LIST_REMOVE(context, link);
    order_note_only(order);
    context->ended = true;
    context->users++;
    order_leave(context);
    order_tell(order);
}

void order_forget(struct order *order) {
    struct order_context *context;
    order->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* a thread of the parent's had it */
    lock_take(&order->lock, LOCK_ORDER);
    while ((context = LIST_FIRST(&order->contexts))) {
        context->users = 0; /* threads of the parent's */
        end(order, context);
    }
    order->sole = 0;
    atomic_store(&order->several, false);
    atomic_store(&order->streams_used, false);
    atomic_store(&order_word, 0);
    lock_drop(&order->lock, LOCK_ORDER);
}

void order_context_ends(struct order *order, CUcontext handle) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    struct order_context *context = order_find(order, handle);
    if (context)
        end(order, context);
    lock_drop(&order->lock, LOCK_ORDER);
}

void order_primary_ends(struct order *order, CUdevice device) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    struct order_context *context, *next;
    for (context = LIST_FIRST(&order->contexts); context; context = next) {
        next = LIST_NEXT(context, link);
        if (context->device == device)
            end(order, context);
    }
    lock_drop(&order->lock, LOCK_ORDER);
}

uint64_t order_fences(struct order *order, CUcontext handle) {
    lock_take(&order->lock, LOCK_ORDER);
    const struct order_context *context = order_find(order, handle);
    uint64_t number = context && context->fence ? context->fence->number : 0;
    lock_drop(&order->lock, LOCK_ORDER);
    return number;
}

void order_is_done(struct order *order, CUcontext handle, uint64_t fences) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    struct order_context *context = order_find(order, handle);
    if (context && (!context->fence || context->fence->number <= fences))
        order_clear(context);
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
}
