/* Whether contexts have done their work, asked without waiting for it. */
#include "pool/internal.h"

enum { MOST_CONTEXTS = 64 };

static bool can_ask(const struct pool *pool) {
    const struct driver *driver = pool->driver;
    return driver->event_create && driver->event_query && driver->ctx_record_event;
}

/* The context's event for that question. Gate entered or closed, lock not held. */
static CUevent quiet_event(struct pool *pool, struct context *context) {
    lock_check_none();
    pool_lock(pool);
    CUevent event = context->event;
    pool_unlock_between(pool);
    if (!event && pool->driver->event_create(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
        pool_lock(pool);
        context->event = event; /* an event that loses a race is freed with its context */
        pool_unlock_between(pool);
    }
    return event;
}

/* No visit: it is the calling thread's current context, whose end in the midst of this call would
 * be the program's own race. */
bool context_is_quiet(struct pool *pool, struct context *context) {
    const struct driver *driver = pool->driver;
    if (!can_ask(pool) || !gate_enter(pool))
        return false;
    CUevent event = quiet_event(pool, context);
    bool quiet = event && driver->ctx_record_event(context->handle, event) == CUDA_SUCCESS &&
                 driver->event_query(event) == CUDA_SUCCESS;
    gate_leave(pool);
    return quiet;
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
    bool there = context_push_ending(pool, context->handle, &visit);
    CUevent event = there ? quiet_event(pool, context) : NULL;
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
