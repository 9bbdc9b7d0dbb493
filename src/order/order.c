#include "order/order.h"

#include "order/internal.h"
#include "order/noted.h"
#include "planted.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

atomic_int order_word;
_Atomic uint32_t noted_by = NOTED_BY_NONE;
CUstream noted_streams[(1 << NOTED_BITS) + 1];

void order_init(struct order *order, const struct driver *driver) {
    order->driver = driver;
    order->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
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
    int word = atomic_load(&order_word), bits = word & ORDER_DEFERRED;
    if (!LIST_EMPTY(&order->contexts) && !order_is_one(order))
        bits |= ORDER_CONTEXTS;
    LIST_FOREACH (context, &order->contexts, link) {
        bits |= (context->owes ? ORDER_OWED : 0) | (context->unfenced ? ORDER_UNFENCED : 0);
        if (order_has_streams(context) && !order->several)
            bits |= ORDER_TRACKED;
    }
    /* A free that has just set its bits keeps them. */
    while (!atomic_compare_exchange_weak(&order_word, &word,
                                         word & ORDER_FREED ? word | bits : bits)) {
    }
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

void order_drop_crossing(struct order *order, struct order_fence **place) {
    lock_check_held(LOCK_ORDER);
    struct order_fence *fence = *place;
    *place = fence->next;
    atomic_fetch_sub(&order->crossings, 1);
    fence_drop(fence);
}

/* To be called when a context has come or gone. */
static void note_only(struct order *order) {
    noted_empty();
    atomic_store(&order->only, order_is_one(order) ? LIST_FIRST(&order->contexts)->handle : NULL);
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
    note_only(order);
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
        note_only(order);
        order_tell(order);
    }
    lock_drop(&order->lock, LOCK_ORDER);
    return context != NULL;
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

void noted_empty(void) {
    lock_check_held(LOCK_ORDER);
    if (!PLANTED(note_kept))
        atomic_store_explicit(&noted_by, NOTED_BY_NONE, memory_order_release);
}

void noted_add(CUstream stream) {
    lock_check_held(LOCK_ORDER);
    uint32_t own = thread_marks.number;
    if (atomic_load_explicit(&noted_by, memory_order_relaxed) != own)
        memset(noted_streams, 0, sizeof noted_streams);
    atomic_store_explicit(&noted_by, own, memory_order_relaxed);
    if (noted_has(stream))
        return;
    CUstream *place =
        &noted_streams[(unsigned)(uintptr_t)stream * NOTED_FACTOR >> (32 - NOTED_BITS)];
    if (place[0] && !place[1])
        place++;
    *place = stream;
}
