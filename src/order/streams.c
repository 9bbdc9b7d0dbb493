/* The streams of each context: that they exist, and which of them may hold work. */
#include "order/internal.h"
#include "order/noted.h"

#include "base/planted.h"
#include "thread_marks.h"

#include <stdlib.h>

/* The context that a stream works in, as the driver says. Lock not held. */
static CUcontext context_of(const struct order *order, CUstream stream) {
    lock_check_none();
    const struct driver *driver = order->driver;
    CUcontext context = NULL;
    if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD || !driver->stream_get_ctx ||
        driver->stream_get_ctx(stream, &context) != CUDA_SUCCESS)
        driver->ctx_get_current(&context);
    return context;
}

/* Lock held. */
static bool add_stream(struct order *order, struct order_context *context, CUstream handle,
                       bool non_blocking) {
    lock_check_held(LOCK_ORDER);
    atomic_store(&order->streams_used, true);
    if (!order_has_streams(context))
        order_set_busy(&context->legacy, true); /* nothing was noted so far */
    if (handle == CU_STREAM_PER_THREAD) {
        context->has_per_thread = true;
        order_set_busy(&context->per_thread, true);
        return true;
    }
    struct order_stream *former = order_find_created(order, handle);
    if (former) /* whose end nobody has told */
        order_forget_stream(order, former);
    struct order_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return false;
    *stream = (struct order_stream){
        .handle = handle, .context = context, .id = ++order->streams, .non_blocking = non_blocking};
    // NOLINTNEXTLINE(bugprone-sizeof-expression): the key is the handle itself
    HASH_ADD(by_handle, order->by_handle, handle, sizeof handle, stream);
    if (!stream->by_handle.tbl) {
        free(stream);
        return false;
    }
    LIST_INSERT_HEAD(&context->streams, stream, link);
    return true;
}

/* For a context that nobody has announced: the program has not made it, so it is a primary one. */
static CUdevice device_of(const struct order *order, CUcontext context) {
    CUcontext current = NULL;
    CUdevice device;
    bool known = order->driver->ctx_get_current(&current) == CUDA_SUCCESS && current == context &&
                 order->driver->ctx_get_device(&device) == CUDA_SUCCESS;
    return known ? device : ORDER_NO_DEVICE;
}

CUcontext order_meet_context_of(struct order *order, CUstream stream) {
    lock_check_none();
    CUcontext in = context_of(order, stream);
    return in && order_context_begins(order, in, device_of(order, in)) ? in : NULL;
}

bool order_stream_begins(struct order *order, CUstream handle, bool non_blocking) {
    CUcontext in = order_meet_context_of(order, handle);
    if (!in)
        return false;
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    struct order_context *context = order_find(order, in);
    bool added = context && add_stream(order, context, handle, non_blocking);
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return added;
}

bool order_stream_ends(struct order *order, CUstream handle) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_stream *stream;
    while ((stream = order_find_created(order, handle)) && stream->context->recording)
        order_await(order, stream->context); /* an event may be on its way into the stream */
    bool busy = !stream || stream->busy || order->several;
    if (stream)
        order_forget_stream(order, stream);
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return busy;
}

struct order_stream *order_find_stream(struct order *order, CUstream handle,
                                       struct order_context **context) {
    lock_check_held(LOCK_ORDER);
    CUcontext current = NULL;
    if (handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        struct order_stream *stream = order_find_created(order, handle);
        *context = stream ? stream->context : NULL;
        return stream;
    }
    *context = LIST_FIRST(&order->contexts);
    if (*context && !order_is_one(order)) {
        lock_drop(&order->lock, LOCK_ORDER);
        order->driver->ctx_get_current(&current);
        lock_take(&order->lock, LOCK_ORDER);
        *context = order_find(order, current);
    }
    if (!*context)
        return NULL;
    if (handle == CU_STREAM_LEGACY)
        return &(*context)->legacy;
    if (!(*context)->has_per_thread)
        add_stream(order, *context, handle, false);
    return &(*context)->per_thread;
}

bool order_others_owe(struct order *order, CUstream handle) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    struct order_context *own, *context;
    bool owe = false;
    order_find_stream(order, handle, &own);
    LIST_FOREACH (context, &order->contexts, link)
        owe = owe || (context != own && context->owes);
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return owe;
}

/* What is known of a thread's own stream is known of the sole thread's. */
static bool is_known(const struct order *order, CUstream handle) {
    return handle != CU_STREAM_PER_THREAD || order_is_sole(order, thread_marks.number);
}

static bool is_busy_beside(const struct order_context *context, const struct order_stream *stream) {
    const struct order_stream *first = LIST_FIRST(&context->busy);
    return first && (first != stream || LIST_NEXT(first, busy_link));
}

bool order_stream_covers(struct order *order, CUstream handle) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    struct order_context *own, *context;
    struct order_stream *stream = order_find_stream(order, handle, &own);
    bool covers = stream && order_is_tracked(order) && is_known(order, handle);
    LIST_FOREACH (context, &order->contexts, link)
        covers = covers && (context == own || !context->owes);
    if (covers && own->owed)
        covers = stream->behind >= own->owed->number || fence_is_in(own->owed, stream);
    if (covers && own->unfenced)
        covers = !is_busy_beside(own, stream);
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return covers;
}

bool order_put_behind(struct order *order, struct order_context *context,
                      const struct order_stream *stream) {
    lock_check_held(LOCK_ORDER);
    struct order_fence *fence = context->fence;
    struct order_stream copy = *stream;
    if (!fence || copy.behind >= fence->number)
        return true;
    fence->users++;
    context->users++;
    lock_drop(&order->lock, LOCK_ORDER);
    bool ordered = fence_order(order, fence, &copy);
    lock_take(&order->lock, LOCK_ORDER);
    struct order_stream *now = order_find_again(order, &copy);
    if (ordered && now && now->behind < fence->number)
        now->behind = fence->number;
    fence_drop(fence);
    order_leave(context);
    return ordered;
}

/* The stream, if it is a created one or that of the only context. Lock held. */
static const struct order_stream *find_plain(struct order *order, CUstream handle) {
    lock_check_held(LOCK_ORDER);
    if (handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD)
        return order_find_created(order, handle);
    if (!order_is_one(order))
        return NULL;
    const struct order_context *context = LIST_FIRST(&order->contexts);
    return handle == CU_STREAM_LEGACY ? &context->legacy : &context->per_thread;
}

/* Lets this thread's next submissions to the stream go the quick way, if nothing would be done for
 * them here. Lock held. */
static void let_pass(struct order *order, CUstream handle) {
    lock_check_held(LOCK_ORDER);
    if (order->several || !order_is_sole(order, thread_marks.number) ||
        (atomic_load_explicit(&order_word, memory_order_relaxed) & ORDER_OWED))
        return;
    const struct order_stream *stream = find_plain(order, handle);
    const struct order_context *context = stream ? stream->context : NULL;
    if (stream && stream->busy && !context->recording &&
        (!context->fence || stream->behind >= context->fence->number))
        noted_add(handle);
}

/* This thread is about to submit to the context. Lock held. */
static int note_thread(struct order *order, const struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    uint32_t own = thread_number(), sole = order->sole;
    if (!sole) {
        order->sole = order_has_streams(context) ? own : 0;
        return order->sole && thread_numbers() > 1 ? ORDER_SOLE : ORDER_DONE;
    }
    if (sole == own || order->several || PLANTED(other_thread_not_seen))
        return ORDER_DONE;
    order->several = true;
    return ORDER_SEVERAL;
}

int order_submits(struct order *order, CUstream handle, bool may_call) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    bool fenced = !may_call || order_fence_all(order);
    struct order_context *context;
    struct order_stream *stream = order_find_stream(order, handle, &context);
    bool ordered = false;
    int answer = ORDER_DONE;
    if (stream) {
        answer = note_thread(order, context);
        if (order->several)
            noted_empty();
        order_set_busy(stream, !PLANTED(submission_not_noted));
        bool known = is_known(order, handle) || !context->fence;
        ordered = !may_call || (known && order_put_behind(order, context, stream));
    }
    order_tell(order);
    if (may_call)
        let_pass(order, handle);
    lock_drop(&order->lock, LOCK_ORDER);
    return answer | (fenced && ordered ? ORDER_DONE : ORDER_PAY);
}

/* Only work in the legacy stream of the only context is owed a wait: what comes behind it there is
 * in order by itself. Lock held. */
static bool is_in_order(const struct order *order, const struct order_stream *stream) {
    lock_check_held(LOCK_ORDER);
    return stream->handle == CU_STREAM_LEGACY && order_is_one(order) &&
           !order_has_streams(stream->context);
}

bool order_puts_behind(struct order *order, CUstream handle) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    struct order_context *context;
    struct order_stream *stream = order_find_stream(order, handle, &context);
    bool behind = stream && is_in_order(order, stream);
    if (stream && !behind)
        behind = order_fence_all(order) && is_known(order, handle) &&
                 (stream = order_find_stream(order, handle, &context)) &&
                 order_put_behind(order, context, stream);
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return behind;
}

void order_submitted_unnoted(struct order *order) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        order_set_busy(&context->legacy, true);
    lock_drop(&order->lock, LOCK_ORDER);
}

void order_submits_somewhere(struct order *order) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    order_fence_all(order);
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        context->scattered = true;
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
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
