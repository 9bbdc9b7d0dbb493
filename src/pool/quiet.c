/* Whether contexts have done their work, asked without waiting for it. */
#include "pool/internal.h"

enum { MOST_CONTEXTS = 64 };

static bool can_ask(const struct pool *pool) {
    const struct driver *driver = pool->driver;
    return driver->event_create && driver->event_query && driver->ctx_record_event;
}

/* An event that loses a race is freed with its context. */
static void keep_event(struct pool *pool, struct context *context, CUevent event) {
    pool_lock(pool);
    context->event = event;
    pool_unlock_between(pool);
}

/* The context's event for that question. *pending: it was recorded, and had not completed when it
 * was last looked at. Gate entered or closed, lock not held. */
__attribute__((always_inline)) static inline CUevent
quiet_event(struct pool *pool, struct context *context, bool *pending) {
    lock_check_none();
    pool_lock(pool);
    CUevent event = context->event;
    *pending = context->event_pending;
    pool_unlock_between(pool);
    if (!event && pool->driver->event_create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
        keep_event(pool, context, event);
    return event;
}

static CUresult note_all_work(const struct pool *pool, const struct context *context,
                              CUevent event) {
    return pool->driver->ctx_record_event ? pool->driver->ctx_record_event(context->handle, event)
                                          : pool->driver->event_record(event, CU_STREAM_LEGACY);
}

/* Whether all work of the current context is done: NOT_READY if not. While an earlier record has
 * not completed nothing more is recorded: whoever asks again and again behind a kernel that runs on
 * would fill the device's queue. Gate entered. */
__attribute__((always_inline)) static inline CUresult ask(struct pool *pool,
                                                          struct context *context) {
    bool pending;
    CUevent event = quiet_event(pool, context, &pending);
    if (!event)
        return CUDA_ERROR_UNKNOWN;
    CUresult result = pending ? pool->driver->event_query(event) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        result = note_all_work(pool, context, event);
    if (result == CUDA_SUCCESS)
        result = pool->driver->event_query(event);
    if (__builtin_expect(result != CUDA_SUCCESS || pending, 0)) {
        pool_lock(pool);
        context->event_pending = result == CUDA_ERROR_NOT_READY;
        pool_unlock_between(pool);
    }
    return result;
}

/* No visit: it is the calling thread's current context, whose end in the midst of this call would
 * be the program's own race. */
bool context_is_quiet(struct pool *pool, struct context *context) {
    if (!can_ask(pool) || !pool_gate_enter(pool))
        return false;
    CUresult result = ask(pool, context);
    pool_gate_leave(pool);
    return result == CUDA_SUCCESS;
}

CUresult quiet_ask_by(struct pool *pool, const struct context *context, CUevent event) {
    lock_check_none();
    if (!can_ask(pool) || !pool_gate_enter(pool))
        return CUDA_ERROR_UNKNOWN;
    CUresult result = pool->driver->ctx_record_event(context->handle, event);
    if (result == CUDA_SUCCESS)
        result = pool->driver->event_query(event);
    pool_gate_leave(pool);
    return result;
}

/* Whether the driver can be asked. Older ones record an event in streams alone: the legacy one
 * comes after all but those that do not wait for it, which only fence_streams.c can name. */
static bool can_ask_now(struct pool *pool) {
    const struct driver *driver = pool->driver;
    if (can_ask(pool))
        return true;
    pool_lock(pool);
    bool covered = LIST_EMPTY(&pool->free_streams) && !pool->streams_lost;
    pool_unlock_between(pool);
    return covered && driver->event_create && driver->event_query && driver->event_record;
}

/* As ask, of older drivers beside streams that the legacy one does not wait for. Gate entered. */
static CUresult ask_streams(struct pool *pool, const struct context *context) {
    struct fence *fence = fence_now(pool, context);
    return fence ? fence_now_query(pool, fence) : CUDA_ERROR_UNKNOWN;
}

enum rest quiet_ask(struct pool *pool, struct context *context) {
    struct context_push visit;
    CUcontext handle = context->handle;
    CUresult result = CUDA_ERROR_UNKNOWN;
    bool all = can_ask_now(pool);
    if (!pool_gate_enter(pool))
        return REST_UNKNOWN;
    if (context_push(pool, handle, &visit)) {
        result = all ? ask(pool, context) : ask_streams(pool, context);
        context_pop(pool, &visit);
    }
    pool_gate_leave(pool);
    if (result != CUDA_ERROR_NOT_READY)
        pool_note_error(pool, result);
    return result == CUDA_SUCCESS           ? REST_QUIET
           : result == CUDA_ERROR_NOT_READY ? REST_BUSY
                                            : REST_UNKNOWN;
}

bool quiet_is_owed_wait_over(struct pool *pool) {
    lock_check_none();
    if (!pool_gate_enter(pool))
        return false;
    bool over = order_is_over(&pool->order);
    pool_gate_leave(pool);
    return over;
}

/* Lists all contexts whose work can be asked for. Records of contexts that end stay as long as this
 * call. -1: too many. */
static int list_contexts(struct pool *pool, struct context **contexts) {
    struct context *context;
    int count = 0;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->broken || !context_is_first(pool, context))
            continue;
        if (count < MOST_CONTEXTS)
            contexts[count] = context;
        count++;
    }
    pool_unlock(pool);
    return count <= MOST_CONTEXTS ? count : -1;
}

static bool note_work_of(struct pool *pool, struct context *context) {
    struct context_push visit;
    if (!order_visit_begins(&pool->order, context->handle))
        return false;
    bool there = context_push_ending(pool, context->handle, &visit), pending;
    CUevent event = there ? quiet_event(pool, context, &pending) : NULL;
    bool noted = event && pool->driver->ctx_record_event(context->handle, event) == CUDA_SUCCESS;
    context_pop(pool, &visit);
    order_visit_ends(&pool->order, context->handle);
    return noted;
}

bool quiet_note_work(struct pool *pool) {
    lock_check_none();
    struct context *contexts[MOST_CONTEXTS];
    int count = can_ask(pool) ? list_contexts(pool, contexts) : -1;
    bool noted = count >= 0;
    for (int i = 0; noted && i < count; i++)
        noted = note_work_of(pool, contexts[i]);
    return noted;
}

bool quiet_is_noted_work_done(struct pool *pool) {
    lock_check_none();
    CUevent events[MOST_CONTEXTS];
    const struct context *context;
    int count = 0;
    bool done = true;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link) /* a context without an event is new since */
        if (context->event && !context->broken && count < MOST_CONTEXTS)
            events[count++] = context->event;
    pool_unlock(pool);
    for (int i = 0; done && i < count; i++)
        done = pool->driver->event_query(events[i]) == CUDA_SUCCESS;
    return done;
}
