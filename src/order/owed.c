/* What is owed: fences are recorded for it, and waited for. */
#include "order/internal.h"
#include "order/noted.h"

#include "base/clock.h"
#include "base/planted.h"
#include "counters/stats.h"
#include "thread_marks.h"

/* What a fence is to be recorded in. whole: the context. */
struct targets {
    int count;
    bool whole, unknown;
    struct order_stream streams[FENCE_PARTS];
};

/* What may hold work that no fence covers. It is covered from now on, unless another thread is the
 * one that submits: a submission of its that was noted need not have reached the driver. Lock held.
 */
static void find_targets(const struct order *order, struct order_context *context,
                         struct targets *targets) {
    lock_check_held(LOCK_ORDER);
    struct order_stream *stream, *next;
    bool covers = order_is_sole(order, thread_marks.number);
    targets->count = 0; /* the rest is large, and mostly not used */
    targets->whole = targets->unknown = false;
    for (stream = LIST_FIRST(&context->busy); stream; stream = next) {
        next = LIST_NEXT(stream, busy_link);
        if (targets->count < FENCE_PARTS)
            targets->streams[targets->count] = *stream;
        targets->count++;
        order_set_busy(stream, !covers);
    }
    targets->count += context->scattered;
    if (!order_has_streams(context) && !context->scattered) {
        order_set_busy(&context->legacy, true); /* what goes there is not noted */
        return;
    }
    /* Another thread cannot name the sole one's own stream. */
    bool unnamed = context->per_thread.busy && !covers;
    targets->whole = targets->count > FENCE_PARTS || context->scattered || unnamed;
    /* Nobody knows which streams several threads have put behind a fence. */
    targets->unknown = order->several || (targets->whole && !order->driver->ctx_record_event);
    context->scattered = context->scattered && !covers;
}

/* Records the fence in the current context. NULL: it could not be done. Lock not held. */
static struct order_fence *record_in(struct order *order, struct order_context *context,
                                     const struct targets *targets, uint64_t number) {
    lock_check_none();
    struct order_fence *fence = targets->unknown ? NULL : fence_new(order, context, number);
    bool recorded = fence != NULL;
    if (recorded && targets->whole)
        recorded = fence_add(order, fence, NULL);
    for (int i = 0; recorded && !targets->whole && i < targets->count; i++)
        recorded = fence_add(order, fence, &targets->streams[i]);
    if (recorded || !fence)
        return fence;
    lock_take(&order->lock, LOCK_ORDER);
    fence_drop(fence);
    lock_drop(&order->lock, LOCK_ORDER);
    return NULL;
}

/* Its last fence is the one that the context owes a wait for. Lock held. */
static void owe_last_fence(struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    fence_drop(context->owed);
    context->owed = context->fence;
    if (context->owed)
        context->owed->users++;
    else
        context->owes = false;
}

/* Records the fence in its context. NULL: it could not be. Lock not held. */
static struct order_fence *record_there(struct order *order, struct order_context *context,
                                        const struct targets *targets, uint64_t number) {
    lock_check_none();
    bool pushed = false;
    if (!order_visit_begins(order, context->handle))
        return NULL;
    struct order_fence *fence = NULL;
    if (order_make_current(order, context->handle, &pushed))
        fence = record_in(order, context, targets, number);
    order_visit_ends(order, context->handle);
    order_make_former_current(order, pushed);
    stats_add(STATS_fences, fence != NULL);
    return fence;
}

/* Records a fence with one user, as has the context then. NULL: it could not be. Lock held on entry
 * and return, not in between. */
static struct order_fence *record_for_one(struct order *order, struct order_context *context,
                                          const struct targets *targets) {
    lock_check_held(LOCK_ORDER);
    context->users++;
    lock_drop(&order->lock, LOCK_ORDER);
    struct order_fence *fence = record_there(order, context, targets, 0);
    lock_take(&order->lock, LOCK_ORDER);
    if (!fence)
        order_leave(context);
    return fence;
}

struct order_fence *order_record_in_stream(struct order *order, struct order_context *context,
                                           const struct order_stream *stream) {
    lock_check_held(LOCK_ORDER);
    struct targets targets = {.count = 1, .streams = {*stream}};
    return record_for_one(order, context, &targets);
}

/* Whether the host has waited for all work of the context, or nobody has to, as it ends: if it does
 * not after all, this is owed again. Lock held on entry and return, not in between. */
static bool wait_instead(struct order *order, struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    CUresult result;
    lock_drop(&order->lock, LOCK_ORDER);
    bool waited = order_synchronize(order, context->handle, &result);
    if (waited && result != CUDA_SUCCESS) /* perhaps in passing */
        order_synchronize(order, context->handle, &result);
    lock_take(&order->lock, LOCK_ORDER);
    context->dismissed = context->dismissed || (!waited && context->closing);
    return waited || context->closing;
}

/* The fence becomes the context's last one. Lock held. */
static void publish(struct order *order, struct order_context *context, struct order_fence *fence,
                    const struct order_stream *first, bool owed) {
    lock_check_held(LOCK_ORDER);
    fence_drop(context->fence);
    context->fence = fence;
    if (owed)
        owe_last_fence(context);
    struct order_stream *stream = fence->count == 1 ? order_find_again(order, first) : NULL;
    if (stream && fence->parts[0].stream == stream->id)
        stream->behind = fence->number;
}

/* Records a fence for the frees of the context that have none; or waits at once, where none can be
 * recorded. False: neither could be done, so they still have none. Lock held on entry and return,
 * not in between. */
static bool record(struct order *order, struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    struct targets targets;
    find_targets(order, context, &targets);
    bool owed = context->unfenced, waited = false;
    noted_empty();
    context->unfenced = false;
    if (!targets.count) { /* nothing has been submitted since the last fence */
        if (owed)
            owe_last_fence(context);
        return true;
    }
    uint64_t number = ++context->fences;
    context->users++;
    context->recording++;
    lock_drop(&order->lock, LOCK_ORDER);
    struct order_fence *fence = record_there(order, context, &targets, number);
    lock_take(&order->lock, LOCK_ORDER);
    if (!fence)
        waited = wait_instead(order, context);
    context->recording--;
    if (fence && !context->ended && (!context->fence || context->fence->number < number)) {
        publish(order, context, fence, &targets.streams[0], owed);
    } else if (fence) {
        fence_drop(fence);
    } else if (!waited) {
        context->unfenced = context->unfenced || owed;
        order_set_all_busy(context);
    } else if (!context->unfenced) {
        order_clear(context);
    }
    order_leave(context);
    return fence || waited;
}

static struct order_context *find_unfenced(const struct order *order) {
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        if (context->unfenced)
            break;
    return context;
}

static struct order_context *find_recording(const struct order *order) {
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        if (context->recording)
            break;
    return context;
}

bool order_fence_all(struct order *order) {
    lock_check_held(LOCK_ORDER);
    struct order_context *context;
    bool recorded = true;
    while (recorded && !PLANTED(fence_after_submission) && (context = find_unfenced(order)))
        recorded = record(order, context);
    uint64_t began = 0;
    while ((context = find_recording(order))) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        began = began ? began : now;
        if (now - began > ORDER_RECORD_NS)
            break;
        order_await(order, context);
    }
    return recorded;
}

/* The fence is nobody else's: a program may count on its submissions of other threads not to come
 * behind what a free waits for. */
bool order_fence_now(struct order *order, CUcontext handle, bool whole,
                     struct order_fence **fence) {
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = order_find(order, handle);
    struct targets targets = {.count = 1, .whole = true};
    *fence = NULL;
    if (context && !whole && !order_has_streams(context)) {
        targets.whole = false;
        targets.streams[0] = context->legacy;
    }
    if (context && (!targets.whole || order->driver->ctx_record_event))
        *fence = record_for_one(order, context, &targets);
    lock_drop(&order->lock, LOCK_ORDER);
    return *fence;
}

void order_fence_end(struct order *order, struct order_fence *fence) {
    lock_check_none();
    lock_take(&order->lock, LOCK_ORDER);
    struct order_context *context = fence->context;
    fence_drop(fence);
    order_leave(context);
    lock_drop(&order->lock, LOCK_ORDER);
}

CUresult order_fence_wait(struct order *order, struct order_fence *fence) {
    CUresult result = fence_wait(order, fence);
    order_fence_end(order, fence);
    return result;
}

/* The next context that owes a wait and was not looked at in this turn. Lock held. */
static struct order_context *next_owing(const struct order *order, uint64_t turn) {
    lock_check_held(LOCK_ORDER);
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        if (context->owes && context->owed && context->turn != turn)
            break;
    return context;
}

/* Makes the wait that the context owes. Lock held on entry and return, not in between. */
static void pay(struct order *order, struct order_context *context,
                void (*failed)(void *data, CUresult error), void *data) {
    lock_check_held(LOCK_ORDER);
    struct order_fence *fence = context->owed;
    context->users++;
    fence->users++;
    CUresult result = order_visit_until(order, fence);
    /* The call that follows must not be let through because of a passing error. */
    if (result != CUDA_SUCCESS)
        result = order_visit_until(order, fence);
    /* It may be the thread's own context that is destroyed. */
    if (result == CUDA_ERROR_CONTEXT_IS_DESTROYED && wait_instead(order, context))
        result = CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        lock_drop(&order->lock, LOCK_ORDER);
        failed(data, result);
        lock_take(&order->lock, LOCK_ORDER);
    }
    order_take_notice(order);
    if (context->owed == fence && !context->unfenced)
        order_clear(context); /* also after an error: the call itself will return it */
    fence_drop(fence);
    order_leave(context);
}

bool order_pay(struct order *order, void (*failed)(void *data, CUresult error), void *data) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    order_fence_all(order);
    uint64_t turn = ++order->turns;
    struct order_context *context;
    bool owed = false;
    while ((context = next_owing(order, turn))) {
        context->turn = turn;
        owed = true;
        pay(order, context, failed, data);
    }
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return owed;
}

bool order_is_over(struct order *order) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    order_fence_all(order);
    uint64_t turn = ++order->turns;
    struct order_context *context;
    bool over = true;
    while (over && (context = next_owing(order, turn))) {
        struct order_fence *fence = context->owed;
        context->turn = turn;
        context->users++;
        fence->users++;
        over = order_visit_fence(order, fence) != CUDA_ERROR_NOT_READY;
        fence_drop(fence);
        order_leave(context);
    }
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return over;
}
