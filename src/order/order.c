/* Contexts begin, frees owe, and the word says what they all owe. */
#include "base/planted.h"
#include "order/internal.h"
#include "order/noted.h"

#include <stdlib.h>
#include <string.h>

_Atomic uint32_t noted_by = NOTED_BY_NONE;
CUstream noted_streams[(1 << NOTED_BITS) + 1];

void order_init(struct order *order, const struct driver *driver) {
    order->driver = driver;
    order->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

struct order_context *order_find(const struct order *order, CUcontext handle) {
    lock_check_held(LOCK_ORDER);
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        if (context->handle == handle)
            return context;
    return NULL;
}

bool order_has_streams(const struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    return context->has_per_thread || !LIST_EMPTY(&context->streams);
}

bool order_is_one(const struct order *order) {
    lock_check_held(LOCK_ORDER);
    const struct order_context *first = LIST_FIRST(&order->contexts);
    return first && !LIST_NEXT(first, link);
}

void order_set_busy(struct order_stream *stream, bool busy) {
    lock_check_held(LOCK_ORDER);
    if (busy && !stream->busy)
        LIST_INSERT_HEAD(&stream->context->busy, stream, busy_link);
    if (!busy && stream->busy)
        LIST_REMOVE(stream, busy_link);
    stream->busy = busy;
}

struct order_stream *order_find_created(struct order *order, CUstream handle) {
    lock_check_held(LOCK_ORDER);
    struct order_stream *stream;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): the key is the handle itself
    HASH_FIND(by_handle, order->by_handle, &handle, sizeof handle, stream);
    return stream;
}

struct order_stream *order_find_again(struct order *order, const struct order_stream *copy) {
    lock_check_held(LOCK_ORDER);
    if (copy->handle == CU_STREAM_LEGACY)
        return &copy->context->legacy;
    if (copy->handle == CU_STREAM_PER_THREAD)
        return &copy->context->per_thread;
    struct order_stream *stream = order_find_created(order, copy->handle);
    return stream && stream->id == copy->id ? stream : NULL;
}

void order_take_notice(struct order *order) {
    lock_check_held(LOCK_ORDER);
    struct order_context *context;
    if (!(atomic_load(&order_word) & ORDER_FREED))
        return;
    atomic_fetch_and(&order_word, ~ORDER_FREED);
    /* Several: a second one has begun while a free of the first was setting its bits. */
    LIST_FOREACH (context, &order->contexts, link)
        context->owes = context->unfenced = true;
}

void order_tell(struct order *order) {
    lock_check_held(LOCK_ORDER);
    const struct order_context *context;
    int word = atomic_load(&order_word), bits = 0;
    if (!LIST_EMPTY(&order->contexts) && !order_is_one(order))
        bits |= ORDER_CONTEXTS;
    LIST_FOREACH (context, &order->contexts, link) {
        bits |= (context->owes ? ORDER_OWED : 0) | (context->unfenced ? ORDER_UNFENCED : 0);
        if (order_has_streams(context) && !order->several)
            bits |= ORDER_TRACKED;
    }
    /* A free that has just set its bits keeps them: one that defers sets no more than that. */
    while (!atomic_compare_exchange_weak(
        &order_word, &word, bits | (word & ORDER_FREED ? word : word & ORDER_DEFERRED))) {
    }
}

void order_note_only(struct order *order) {
    lock_check_held(LOCK_ORDER);
    noted_empty();
    atomic_store(&order->only, order_is_one(order) ? LIST_FIRST(&order->contexts)->handle : NULL);
}

bool order_context_begins(struct order *order, CUcontext handle, CUdevice device) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    if (!context && (context = calloc(1, sizeof *context))) {
        order_take_notice(order); /* while the only context is the only one */
        context->handle = handle;
        context->device = device;
        LIST_INIT(&context->streams);
        LIST_INIT(&context->busy);
        context->legacy = (struct order_stream){
            .handle = CU_STREAM_LEGACY, .context = context, .id = ++order->streams};
        context->per_thread = (struct order_stream){
            .handle = CU_STREAM_PER_THREAD, .context = context, .id = ++order->streams};
        order_set_busy(&context->legacy, true);
        LIST_INSERT_HEAD(&order->contexts, context, link);
        order_note_only(order);
        order_tell(order);
    }
    lock_drop(&order->lock, LOCK_ORDER);
    return context != NULL;
}

void order_owe(struct order *order, CUcontext handle) {
    if (order_is_only(order, handle)) {
        order_owe_quickly();
        return;
    }
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    if (context) {
        context->owes = context->unfenced = true;
        order_tell(order);
    }
    lock_drop(&order->lock, LOCK_ORDER);
}

void noted_empty(void) {
    lock_check_held(LOCK_ORDER);
    if (!PLANTED(note_kept))
        atomic_store_explicit(&noted_by, NOTED_BY_NONE, memory_order_release);
}
