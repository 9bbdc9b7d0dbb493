/* Streams whose work a fence has to name: the program makes and ends them. Where the driver can
 * record what a whole context has under way (cuCtxRecordEvent), none needs to be named. */
#include "pool/fence_parts.h"

#include <stdlib.h>

/* No cache is to serve a free as though there were one context, if this is of another. */
static void learn_of_stream(struct pool *pool, CUstream handle, bool non_blocking) {
    if (!order_stream_begins(&pool->order, handle, non_blocking))
        pool_streams_lost(pool);
    pool_grant_anew(pool);
}

/* Has fences name the current context's stream. */
static void list_stream(struct pool *pool, CUstream handle) {
    struct context *context = context_lock_current(pool, &kind_device);
    struct free_stream *stream = context ? calloc(1, sizeof *stream) : NULL;
    if (stream) {
        *stream = (struct free_stream){.handle = handle, .context = context};
        LIST_INSERT_HEAD(&pool->free_streams, stream, link);
    }
    pool_unlock(pool);
    if (!stream)
        pool_streams_lost(pool);
}

void pool_stream_created(struct pool *pool, CUstream handle, bool non_blocking) {
    if (pool->config.free_mode == POOL_FREE_AUTO)
        learn_of_stream(pool, handle, non_blocking);
    if (pool->driver->ctx_record_event)
        return;
    if (non_blocking) {
        list_stream(pool, handle);
    } else {
        pool_lock(pool);
        pool->blocking_streams++;
        pool_unlock(pool);
    }
}

static struct free_stream *find_stream(struct pool *pool, CUstream handle) {
    struct free_stream *stream;
    LIST_FOREACH (stream, &pool->free_streams, link)
        if (stream->handle == handle)
            return stream;
    return NULL;
}

/* The context of a stream that fences name, or NULL. Drops left events that have passed. */
static struct context *context_of(struct pool *pool, CUstream handle) {
    pool_lock(pool);
    fence_left_events_pass(pool, &(struct fence){.left_number = pool->left_number}, FENCE_ASKS);
    const struct free_stream *known = find_stream(pool, handle);
    struct context *context = known ? known->context : NULL;
    pool_unlock(pool);
    return context;
}

/* Fences name the event instead of the stream from now on, if there is one and it was recorded. */
static void replace_stream(struct pool *pool, CUstream handle, struct left_event *left,
                           bool recorded) {
    pool_lock(pool);
    struct free_stream *stream = find_stream(pool, handle);
    if (stream)
        LIST_REMOVE(stream, link);
    free(stream);
    if (recorded && !left->event->context->ended && !PLANTED(destroyed_stream_not_fenced)) {
        left->number = ++pool->left_number;
        LIST_INSERT_HEAD(&pool->left_events, left, link);
    } else {
        pool->streams_lost = pool->streams_lost || !recorded;
        fence_recycle_events(left ? left->event : NULL);
        free(left);
    }
    pool_unlock(pool);
}

/* Leaves an event after the last work of a stream that is about to be destroyed: every fence to
 * come must include it. While the gate is closed no fence is made, so that to all of them this is
 * one step. */
static void leave_event(struct pool *pool, CUstream handle) {
    struct fence_target target = {context_of(pool, handle), handle};
    if (!target.context)
        return;
    struct left_event *left = calloc(1, sizeof *left);
    struct fence last = {.events = NULL};
    /* In a stream that is captured the event would be part of the capture. */
    bool captured = atomic_load(&pool->captures) &&
                    (!pool->driver->stream_is_capturing || pool_stream_is_captured(pool, handle));
    gate_close(pool);
    bool recorded = left && !captured && fence_record(pool, &target, 1, &last);
    if (PLANTED(slow_stream_end))
        futex_pause();
    if (left)
        left->event = last.events;
    replace_stream(pool, handle, left, recorded);
    if (PLANTED(slow_stream_end))
        futex_pause();
    gate_open(pool);
}

bool pool_stream_ends(struct pool *pool, CUstream stream) {
    bool captured = captures_stream_ends(pool, stream);
    if (order_stream_ends(&pool->order, stream))
        pool_work_pending(pool);
    if (!pool->driver->ctx_record_event)
        leave_event(pool, stream);
    if (pool->config.ordered) {
        pool_lock(pool);
        fence_forget_order(pool, stream);
        pool_unlock(pool);
    }
    return captured;
}
