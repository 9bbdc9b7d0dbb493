/* What is owed: fences are recorded for it, and waited for. */
#include "order/internal.h"

#include "clock.h"
#include "observe/stats.h"
#include "planted.h"

/* For how long another thread is waited for that is recording a fence: it has to enter the driver
 * and come back. */
static const uint64_t RECORD_NS = UINT64_C(100000000);

/* Makes the context current. Lock not held. */
static bool push(const struct driver *driver, CUcontext context, bool *pushed) {
    lock_check_none();
    CUcontext current = NULL;
    *pushed = false;
    if (driver->ctx_get_current(&current) == CUDA_SUCCESS && current == context)
        return true;
    *pushed = driver->ctx_push_current(context) == CUDA_SUCCESS;
    return *pushed;
}

static void pop(const struct driver *driver, bool pushed) {
    CUcontext popped;
    if (pushed && driver->ctx_pop_current(&popped) != CUDA_SUCCESS)
        driver->ctx_pop_current(&popped);
}

/* What a fence is to be recorded in. whole: the context. */
struct targets {
    int count;
    bool whole, unknown;
    struct order_stream streams[FENCE_PARTS];
};

/* What may hold work that no fence covers. Lock held. */
static struct targets find_targets(const struct order *order, struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    struct targets targets = {.count = 0};
    struct order_stream *stream;
    while ((stream = LIST_FIRST(&context->busy))) {
        if (targets.count < FENCE_PARTS)
            targets.streams[targets.count] = *stream;
        targets.count++;
        order_set_busy(stream, false);
    }
    if (!order_has_streams(context)) {
        order_set_busy(&context->legacy, true); /* what goes there is not noted */
        return targets;
    }
    targets.unknown = order->several;
    targets.whole = targets.count > FENCE_PARTS;
    targets.unknown = targets.unknown || (targets.whole && !order->driver->ctx_record_event);
    return targets;
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

/* Records a fence for the frees of the context that have none; or waits at once, where none can be
 * recorded. Lock held on entry and return, not in between. */
static void record(struct order *order, struct order_context *context) {
    lock_check_held(LOCK_ORDER);
    struct targets targets = find_targets(order, context);
    bool owed = context->unfenced;
    context->unfenced = context->unordered = false;
    if (!targets.count) { /* nothing has been submitted since the last fence */
        if (owed)
            owe_last_fence(context);
        return;
    }
    uint64_t number = ++context->fences;
    context->users++;
    context->recording++;
    lock_drop(&order->lock, LOCK_ORDER);
    bool pushed = false, visits = order_visit_begins(order, context->handle);
    bool there = visits && push(order->driver, context->handle, &pushed);
    struct order_fence *fence = there ? record_in(order, context, &targets, number) : NULL;
    if (visits)
        order_visit_ends(order, context->handle);
    if (!fence && there)
        order->driver->ctx_synchronize();
    pop(order->driver, pushed);
    lock_take(&order->lock, LOCK_ORDER);
    context->recording--;
    stats_add(STATS_fences, fence != NULL);
    if (!fence && !context->unfenced) { /* the host has waited */
        order_clear(context);
    } else if (fence && !context->ended && (!context->fence || context->fence->number < number)) {
        fence_drop(context->fence);
        context->fence = fence;
        if (owed)
            owe_last_fence(context);
        struct order_stream *stream = order_find_again(order, &targets.streams[0]);
        if (fence->count == 1 && stream)
            stream->behind = number;
    } else {
        fence_drop(fence);
    }
    order_leave(context);
}

static struct order_context *find_unfenced(const struct order *order) {
    struct order_context *context;
    LIST_FOREACH (context, &order->contexts, link)
        if (context->unfenced || context->unordered)
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

void order_fence_all(struct order *order) {
    lock_check_held(LOCK_ORDER);
    struct order_context *context;
    while (!PLANTED(fence_after_submission) && (context = find_unfenced(order)))
        record(order, context);
    uint64_t began = 0;
    while ((context = find_recording(order))) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        began = began ? began : now;
        if (now - began > RECORD_NS)
            break;
        order_await(order, context);
    }
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

bool order_pay(struct order *order, void (*failed)(void *data, CUcontext context, CUresult error),
               void *data) {
    lock_take(&order->lock, LOCK_ORDER);
    order_take_notice(order);
    order_fence_all(order);
    uint64_t turn = ++order->turns;
    struct order_context *context;
    bool owed = false;
    while ((context = next_owing(order, turn))) {
        struct order_fence *fence = context->owed;
        context->turn = turn;
        owed = true;
        context->users++;
        fence->users++;
        lock_drop(&order->lock, LOCK_ORDER);
        CUresult result = fence_wait(order, fence);
        /* The call that follows must not be let through because of a passing error. */
        if (result != CUDA_SUCCESS)
            result = fence_wait(order, fence);
        if (result != CUDA_SUCCESS)
            failed(data, context->handle, result);
        lock_take(&order->lock, LOCK_ORDER);
        order_take_notice(order);
        if (context->owed == fence && !context->unfenced)
            order_clear(context); /* also after an error: the call itself will return it */
        fence_drop(fence);
        order_leave(context);
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
        lock_drop(&order->lock, LOCK_ORDER);
        over = fence_has_passed(order, fence);
        lock_take(&order->lock, LOCK_ORDER);
        fence_drop(fence);
        order_leave(context);
    }
    order_tell(order);
    lock_drop(&order->lock, LOCK_ORDER);
    return over;
}
