/* Deferred frees: a block is kept unfenced until something is submitted or a malloc wants it; then
 * one fence covers all that were freed before, and they become idle once it has passed.
 *
 * A fence is a set of events that together come after all work that may use its blocks. It is
 * recorded after its blocks were freed, never before: each context's unfenced blocks are taken as
 * they are when the recording begins. */
#include "pool/internal.h"

#include "clock.h"
#include "planted.h"

#include <stdlib.h>

/* Events belong to a context and die with it; while it lives they are used again. */
struct fence_event {
    CUevent event;
    struct context *context;
    struct fence_event *next;
};

/* What a destroyed stream left behind: an event after its last work. Every fence up to the one
 * before which it has passed includes it. `users` and `gone` mean what they do in a fence. */
struct left_event {
    struct fence_event *event;
    uint64_t number;
    int users;
    bool gone;
    LIST_ENTRY(left_event) link;
};

/* Invariant: in its context's list until it has passed or its context has ended; freed by whoever
 * then finds `users` 0. Its events are not looked at before `recorded`. */
struct fence {
    struct block_list blocks;
    struct fence_event *events;
    uint64_t left_number; /* it includes the left events up to this number */
    int users;            /* threads that use it without the lock */
    bool recorded, gone;
    TAILQ_ENTRY(fence) link;
};

/* A stream whose work the legacy stream does not wait for, for drivers without cuCtxRecordEvent. */
struct free_stream {
    CUstream handle;
    struct context *context;
    LIST_ENTRY(free_stream) link;
};

enum { MAX_TARGETS = 64 };

/* What is to be recorded: `stream` in `context`, or all of the context. */
struct target {
    struct context *context;
    CUstream stream;
};

void fence_context_init(struct context *context) {
    lock_check_held(LOCK_POOL);
    LIST_INIT(&context->unfenced);
    TAILQ_INIT(&context->fences);
}

static void move_blocks(struct block_list *from, struct block_list *to) {
    struct pool_block *block;
    while ((block = LIST_FIRST(from))) {
        LIST_REMOVE(block, in_list);
        LIST_INSERT_HEAD(to, block, in_list);
    }
}

static void recycle_events(struct fence_event *events) {
    struct fence_event *next;
    for (; events; events = next) {
        next = events->next;
        if (events->context->ended) {
            free(events); /* the event died with its context */
            continue;
        }
        events->next = events->context->spare_events;
        events->context->spare_events = events;
    }
}

/* An event of `context`, which is current. Lock not held. */
static struct fence_event *new_event(struct pool *pool, struct context *context) {
    lock_check_none();
    pool_lock(pool);
    struct fence_event *event = context->spare_events;
    if (event)
        context->spare_events = event->next;
    pool_unlock(pool);
    if (event)
        return event;
    event = calloc(1, sizeof *event);
    if (!event)
        return NULL;
    event->context = context;
    if (pool->driver->event_create(&event->event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS) {
        free(event);
        return NULL;
    }
    return event;
}

static CUresult record(struct pool *pool, const struct target *target, CUevent event) {
    const struct driver *driver = pool->driver;
    if (driver->ctx_record_event)
        return driver->ctx_record_event(target->context->handle, event);
    return driver->event_record(event, target->stream);
}

/* Records one event for each target. False if one could not be: then the fence is worth nothing.
 * Lock not held, gate entered. */
static bool record_all(struct pool *pool, const struct target *targets, int count,
                       struct fence *fence) {
    lock_check_none();
    for (int i = 0; i < count; i++) {
        struct context_push visit;
        CUcontext handle = targets[i].context->handle;
        if (!order_visit_begins(&pool->order, handle))
            return false;
        bool there = context_push_ending(pool, handle, &visit);
        struct fence_event *event = there ? new_event(pool, targets[i].context) : NULL;
        CUresult result = event ? record(pool, &targets[i], event->event) : CUDA_ERROR_UNKNOWN;
        context_pop(pool, &visit);
        order_visit_ends(&pool->order, handle);
        if (event) {
            event->next = fence->events;
            fence->events = event;
        }
        if (result != CUDA_SUCCESS)
            return false;
    }
    return true;
}

/* All that may use blocks of the context; -1 if that is too much to fence. Lock held. */
static int list_targets(struct pool *pool, const struct context *owner, struct target *targets) {
    lock_check_held(LOCK_POOL);
    bool all = wait_reaches_others(pool);
    CUstream legacy =
        PLANTED(per_thread_stream_not_fenced) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    int count = 0;
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->broken || !context_is_first(pool, context) ||
            (!all && context->handle != owner->handle))
            continue;
        if (count == MAX_TARGETS)
            return -1;
        targets[count++] = (struct target){context, legacy};
    }
    if (pool->driver->ctx_record_event)
        return count;
    struct free_stream *stream;
    LIST_FOREACH (stream, &pool->free_streams, link) {
        if (!all && stream->context->handle != owner->handle)
            continue;
        if (count == MAX_TARGETS)
            return -1;
        targets[count++] = (struct target){stream->context, stream->handle};
    }
    return count;
}

static void drop_if_unused(struct context *context, struct fence *fence) {
    if (fence->users)
        return;
    if (!fence->gone)
        TAILQ_REMOVE(&context->fences, fence, link);
    recycle_events(fence->events);
    free(fence);
}

/* A fence that takes the context's unfenced blocks, and what is to be recorded for it. Both are
 * looked at inside the gate: a stream that ends then either is a target, and stays until the fence
 * is recorded, or has left its event. NULL: that cannot be done now. Lock held. */
static struct fence *begin_fence(struct pool *pool, struct context *context, struct target *targets,
                                 int *count) {
    lock_check_held(LOCK_POOL);
    struct fence *fence = calloc(1, sizeof *fence);
    *count = list_targets(pool, context, targets);
    if (!fence || *count < 0) {
        free(fence);
        return NULL;
    }
    move_blocks(&context->unfenced, &fence->blocks);
    fence->left_number = pool->left_number;
    fence->users = 1;
    TAILQ_INSERT_TAIL(&context->fences, fence, link);
    return fence;
}

/* Fences what has been freed so far. False if that cannot be done now. Lock held on entry and
 * return, but not in between. */
static bool fence_unfenced(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct target targets[MAX_TARGETS];
    int count;
    if (LIST_EMPTY(&context->unfenced))
        return true;
    if (!gate_enter(pool))
        return false;
    struct fence *fence = begin_fence(pool, context, targets, &count);
    if (!fence) {
        gate_leave(pool);
        return false;
    }
    pool_unlock_between(pool);
    bool recorded = record_all(pool, targets, count, fence);
    gate_leave(pool);
    pool_lock(pool);
    fence->users--;
    fence->recorded = recorded;
    if (!recorded)
        move_blocks(&fence->blocks, &context->unfenced);
    else
        stats_add(STATS_fences, 1);
    if (!recorded || fence->gone)
        drop_if_unused(context, fence);
    return recorded;
}

/* Asks or waits whether an event has completed. Lock not held. */
static CUresult event_passes(struct pool *pool, const struct fence_event *event, bool wait) {
    lock_check_none();
    if (!gate_enter(pool))
        return CUDA_ERROR_NOT_READY;
    uint64_t began = wait ? clock_ns(CLOCK_MONOTONIC) : 0;
    CUresult result = wait ? pool->driver->event_synchronize(event->event)
                           : pool->driver->event_query(event->event);
    if (wait)
        stats_add(STATS_wait_ns, clock_ns(CLOCK_MONOTONIC) - began);
    gate_leave(pool);
    if (result != CUDA_ERROR_NOT_READY)
        context_note_error(pool, event->context, result);
    return result;
}

static void drop_left_if_unused(struct left_event *left) {
    if (left->users)
        return;
    recycle_events(left->event);
    free(left);
}

/* Drops all left events up to `number`. Lock held on entry and return, not in between. */
static bool left_events_pass(struct pool *pool, uint64_t number, bool wait) {
    lock_check_held(LOCK_POOL);
    struct left_event *left;
    for (;;) {
        LIST_FOREACH (left, &pool->left_events, link)
            if (left->number <= number)
                break;
        if (!left)
            return true;
        left->users++;
        pool_unlock_between(pool);
        bool passed = event_passes(pool, left->event, wait) == CUDA_SUCCESS;
        pool_lock(pool);
        left->users--;
        if (passed && !left->gone) {
            LIST_REMOVE(left, link);
            left->gone = true;
        }
        if (left->gone)
            drop_left_if_unused(left);
        if (!passed)
            return false;
    }
}

/* Asks or waits whether a fence has passed; its blocks are idle then. Lock held on entry and
 * return, not in between: the fence is gone afterwards if it has passed. */
static bool fence_passes(struct pool *pool, struct context *context, struct fence *fence,
                         bool wait) {
    lock_check_held(LOCK_POOL);
    CUresult result = CUDA_SUCCESS;
    fence->users++;
    bool passed = left_events_pass(pool, fence->left_number, wait);
    pool_unlock_between(pool);
    for (struct fence_event *event = fence->events; event && passed && result == CUDA_SUCCESS;
         event = event->next)
        result = event_passes(pool, event, wait);
    pool_lock(pool);
    fence->users--;
    passed = passed && result == CUDA_SUCCESS && !fence->gone;
    if (passed) {
        struct pool_block *block;
        while ((block = LIST_FIRST(&fence->blocks))) {
            LIST_REMOVE(block, in_list);
            ledger_end_deferral(pool, block);
        }
    }
    bool lost = result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY;
    if (lost && !fence->gone) /* its event says no more: another fence is needed */
        move_blocks(&fence->blocks, &context->unfenced);
    if (passed || lost || fence->gone)
        drop_if_unused(context, fence);
    return passed;
}

/* Looks at the fences, oldest first, up to the first that has not passed. Lock as above. */
static void poll_fences(struct pool *pool, struct context *context) {
    struct fence *fence;
    while (!context->ended && (fence = TAILQ_FIRST(&context->fences)) &&
           // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that has passed is in the list no more
           fence->recorded && !fence->users && fence_passes(pool, context, fence, false)) {
    }
}

/* Whether the block, once it is idle, is likely to serve the request. */
static bool would_fit(const struct pool *pool, const struct pool_block *block,
                      const struct site *site, size_t size) {
    const struct policy *policy = block->context->policy;
    if (policy->keeps_nothing || block->size < size || (policy->own_site && block->site != site) ||
        (policy->same_size && block->size != size))
        return false;
    return policy->cuts || (double)block->size <= pool->config.reuse_ratio * (double)size;
}

/* A recorded fence with a block that fits. */
static struct fence *find_fence(struct pool *pool, struct context *context, const struct site *site,
                                size_t size) {
    struct fence *fence;
    struct pool_block *block;
    TAILQ_FOREACH (fence, &context->fences, link)
        if (fence->recorded)
            LIST_FOREACH (block, &fence->blocks, in_list)
                if (would_fit(pool, block, site, size))
                    return fence;
    return NULL;
}

/* The oldest fence that blocks wait for; one that has passed may still be in the list, without any.
 */
static struct fence *oldest_fence(struct context *context) {
    struct fence *fence;
    TAILQ_FOREACH (fence, &context->fences, link)
        if (fence->recorded && !LIST_EMPTY(&fence->blocks))
            return fence;
    return NULL;
}

/* Suballocations merge only once they are idle: lest regions grow without end, what is deferred is
 * waited for when it is much. */
static bool is_much_deferred(const struct context *context, size_t size) {
    static const size_t little = 64 << 20;
    const struct device *device = context->device;
    uint64_t most = device->in_use / 4 > little ? device->in_use / 4 : little;
    uint64_t deferred = device->idle - context->store.bytes - context->store.unused;
    return deferred >= size && deferred > most;
}

/* The fence to wait for when nothing idle serves a request. */
static struct fence *fence_worth_waiting(struct pool *pool, struct context *context,
                                         const struct site *site, size_t size) {
    struct fence *fence = find_fence(pool, context, site, size);
    if (!fence && context->policy->cuts && is_much_deferred(context, size))
        fence = oldest_fence(context);
    return fence;
}

struct pool_block *fence_take(struct pool *pool, struct context *context, struct site *site,
                              size_t bytes, size_t size, bool may_wait) {
    lock_check_held(LOCK_POOL);
    fence_unfenced(pool, context);
    poll_fences(pool, context);
    struct pool_block *block = context->ended ? NULL : pool_take(pool, context, site, bytes, size);
    struct fence *fence;
    while (!block && may_wait && !context->ended &&
           (fence = fence_worth_waiting(pool, context, site, size))) {
        stats_add(STATS_fences_waited, 1);
        if (!fence_passes(pool, context, fence, true))
            break;
        if (!context->ended)
            block = pool_take(pool, context, site, bytes, size);
    }
    return block;
}

/* How many deferred blocks are looked at for one of a stream: a stream has mostly freed among the
 * last what it wants next. */
enum { MOST_LOOKED_AT = 64 };

/* The smaller of `best` and the blocks of the list that serve. *left: how many are looked at. */
static struct pool_block *find_freed_in(const struct policy *policy, const struct block_list *list,
                                        CUstream stream, const struct fit *fit,
                                        struct pool_block *best, int *left) {
    struct pool_block *block;
    LIST_FOREACH (block, list, in_list) {
        if (--*left < 0)
            break;
        bool ordered = block->freed_in == stream || PLANTED(any_stream_has_it);
        if (ordered && block->size >= fit->size && policy->serves(block, fit) &&
            (!best || block->size < best->size))
            best = block;
    }
    return best;
}

struct pool_block *fence_find_freed_in(struct context *context, CUstream stream,
                                       const struct fit *fit) {
    lock_check_held(LOCK_POOL);
    int left = MOST_LOOKED_AT;
    const struct fence *fence;
    if (!context->policy->serves)
        return NULL;
    struct pool_block *best =
        find_freed_in(context->policy, &context->unfenced, stream, fit, NULL, &left);
    TAILQ_FOREACH_REVERSE (fence, &context->fences, fence_list, link)
        best = find_freed_in(context->policy, &fence->blocks, stream, fit, best, &left);
    return best;
}

static void forget_order(const struct block_list *list, CUstream stream) {
    struct pool_block *block;
    LIST_FOREACH (block, list, in_list)
        if (block->freed_in == stream)
            block->freed_in = NULL;
}

/* Forgets which blocks the stream has freed: its handle may soon be another stream's. */
static void forget_order_of(struct pool *pool, CUstream stream) {
    struct context *context;
    const struct fence *fence;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link) {
        forget_order(&context->unfenced, stream);
        TAILQ_FOREACH (fence, &context->fences, link)
            forget_order(&fence->blocks, stream);
    }
    pool_unlock(pool);
}

/* Whether blocks wait for a fence, or for one to be made. */
static bool is_deferring(const struct context *context) {
    const struct fence *fence;
    bool waits = !LIST_EMPTY(&context->unfenced);
    TAILQ_FOREACH (fence, &context->fences, link)
        waits = waits || !LIST_EMPTY(&fence->blocks);
    return waits;
}

static struct context *deferring(struct pool *pool, const struct device *device) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->device == device && !context->broken && is_deferring(context))
            return context;
    return NULL;
}

/* Where no fence can be recorded: waits for all work. Lock held on entry and return, not in
 * between; then blocks of a context that ends leave the list. */
static bool wait_instead(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct block_list waiting = {NULL};
    struct pool_block *block;
    move_blocks(&context->unfenced, &waiting);
    pool_unlock_between(pool);
    bool waited = context_wait(pool, context) == CUDA_SUCCESS;
    pool_lock(pool);
    if (!waited)
        move_blocks(&waiting, &context->unfenced);
    while ((block = LIST_FIRST(&waiting))) {
        LIST_REMOVE(block, in_list);
        ledger_end_deferral(pool, block);
    }
    return waited;
}

void fence_drain(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    struct fence *fence;
    while ((context = deferring(pool, device))) {
        bool fenced = fence_unfenced(pool, context);
        if (context->ended)
            return;
        fence = oldest_fence(context);
        if (fenced && fence && fence_passes(pool, context, fence, true))
            continue;
        if (fenced && !fence) { /* another thread is just recording it */
            pool_unlock_between(pool);
            gate_pause();
            pool_lock(pool);
        } else if (context->ended || LIST_EMPTY(&context->unfenced) ||
                   !wait_instead(pool, context)) {
            return;
        }
    }
}

/* Where a freed block waits for a fence; a planted fault lets one do that was recorded before. */
static struct block_list *list_for(struct context *context) {
    if (PLANTED(fence_before_free) && !TAILQ_EMPTY(&context->fences))
        return &TAILQ_LAST(&context->fences, fence_list)->blocks;
    return &context->unfenced;
}

void fence_defer(struct pool *pool, struct pool_block *block, CUstream freed_in) {
    lock_check_held(LOCK_POOL);
    block->freed_in = freed_in;
    LIST_INSERT_HEAD(list_for(block->context), block, in_list);
    if (PLANTED(fence_after_publish)) {
        LIST_REMOVE(block, in_list);
        ledger_end_deferral(pool, block);
    }
    order_defers();
    stats_add(STATS_free_deferred, 1);
}

void fence_before_submission(struct pool *pool) {
    lock_check_none();
    struct context *context;
    if (PLANTED(fence_after_submission))
        return;
    pool_lock(pool);
    atomic_fetch_and(&order_word, ~ORDER_DEFERRED);
    LIST_FOREACH (context, &pool->contexts, link)
        if (!context->broken && !LIST_EMPTY(&context->unfenced) &&
            (!fence_unfenced(pool, context) || context->ended))
            break; /* the rest is fenced later, which covers more than is needed */
    pool_unlock(pool);
}

struct pool_block *fence_largest(struct context *context) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block, *largest = NULL;
    struct fence *fence;
    LIST_FOREACH (block, &context->unfenced, in_list)
        if (!largest || block->size > largest->size)
            largest = block;
    TAILQ_FOREACH (fence, &context->fences, link)
        LIST_FOREACH (block, &fence->blocks, in_list)
            if (!largest || block->size > largest->size)
                largest = block;
    return largest;
}

/* Called when the blocks have been taken out of the lists, or will never be looked at again. */
void fence_forget(struct context *context) {
    lock_check_held(LOCK_POOL);
    struct fence *fence;
    struct fence_event *event;
    while ((fence = TAILQ_FIRST(&context->fences))) {
        TAILQ_REMOVE(&context->fences, fence, link);
        fence->gone = true;
        drop_if_unused(context, fence);
    }
    while ((event = context->spare_events)) {
        context->spare_events = event->next;
        free(event);
    }
}

static void forget_streams_of(struct pool *pool, const struct context *only) {
    struct left_event *left, *next_left;
    struct free_stream *stream, *next;
    for (left = LIST_FIRST(&pool->left_events); left; left = next_left) {
        next_left = LIST_NEXT(left, link);
        if (!only || left->event->context == only) {
            LIST_REMOVE(left, link);
            left->gone = true;
            drop_left_if_unused(left);
        }
    }
    for (stream = LIST_FIRST(&pool->free_streams); stream; stream = next) {
        next = LIST_NEXT(stream, link);
        if (!only || stream->context == only) {
            LIST_REMOVE(stream, link);
            free(stream);
        }
    }
}

void fence_forget_streams(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    forget_streams_of(pool, NULL);
    pool->streams_lost = false;
}

void fence_streams_ended(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    forget_streams_of(pool, context);
}

void fence_context_ended(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    forget_streams_of(pool, context);
    fence_forget(context);
}

/* With the lock, so that no cache serves a free as though there were one context, if this is of
 * another. */
static void learn_of_stream(struct pool *pool, CUstream handle, bool non_blocking) {
    if (!order_stream_begins(&pool->order, handle, non_blocking))
        pool_streams_lost(pool);
    pool_lock(pool);
    pool_unlock(pool);
}

void pool_stream_created(struct pool *pool, CUstream handle, bool non_blocking) {
    if (pool->config.free_mode == POOL_FREE_AUTO)
        learn_of_stream(pool, handle, non_blocking);
    if (!non_blocking || pool->driver->ctx_record_event)
        return;
    struct free_stream *stream = calloc(1, sizeof *stream);
    struct context *context = stream ? context_lock_current(pool, &kind_device) : NULL;
    if (!context) {
        free(stream);
        pool->streams_lost = true;
        return;
    }
    *stream = (struct free_stream){.handle = handle, .context = context};
    LIST_INSERT_HEAD(&pool->free_streams, stream, link);
    pool_unlock(pool);
}

static struct free_stream *find_stream(struct pool *pool, CUstream handle) {
    struct free_stream *stream;
    LIST_FOREACH (stream, &pool->free_streams, link)
        if (stream->handle == handle)
            return stream;
    return NULL;
}

bool pool_stream_is_captured(struct pool *pool, CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (!atomic_load(&pool->captures) || !pool->driver->stream_is_capturing)
        return false;
    CUresult result = pool->driver->stream_is_capturing(stream, &status);
    return result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ||
           (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE);
}

/* Leaves an event after the last work of a stream that is about to be destroyed: every fence to
 * come must include it. While the gate is closed no fence is made, so that to all of them this is
 * one step. */
static void leave_event(struct pool *pool, CUstream handle) {
    pool_lock(pool);
    const struct free_stream *known = find_stream(pool, handle);
    struct target target = {known ? known->context : NULL, handle};
    pool_unlock(pool);
    if (!known)
        return;
    struct left_event *left = calloc(1, sizeof *left);
    struct fence last = {.events = NULL};
    bool capturing = atomic_load(&pool->captures) > 0;
    gate_close(pool);
    bool recorded = left && !capturing && record_all(pool, &target, 1, &last);
    if (PLANTED(slow_stream_end))
        gate_pause();
    pool_lock(pool);
    struct free_stream *stream = find_stream(pool, handle);
    if (stream)
        LIST_REMOVE(stream, link);
    free(stream);
    if (recorded && !target.context->ended && !PLANTED(destroyed_stream_not_fenced)) {
        left->event = last.events;
        left->number = ++pool->left_number;
        LIST_INSERT_HEAD(&pool->left_events, left, link);
    } else {
        pool->streams_lost = pool->streams_lost || !recorded;
        recycle_events(last.events);
        free(left);
    }
    pool_unlock(pool);
    if (PLANTED(slow_stream_end))
        gate_pause();
    gate_open(pool);
}

bool pool_stream_ends(struct pool *pool, CUstream stream) {
    bool captured = captures_stream_ends(pool, stream);
    if (order_stream_ends(&pool->order, stream))
        pool_work_pending(pool);
    if (!pool->driver->ctx_record_event)
        leave_event(pool, stream);
    if (pool->config.ordered)
        forget_order_of(pool, stream);
    return captured;
}

static bool is_event_of(const struct fence_event *event, const struct context *context) {
    while (event && event->context != context)
        event = event->next;
    return event != NULL;
}

bool fence_refers_to(const struct pool *pool, const struct context *context) {
    lock_check_held(LOCK_POOL);
    const struct context *other;
    const struct fence *fence;
    const struct left_event *left;
    LIST_FOREACH (left, &pool->left_events, link)
        if (is_event_of(left->event, context))
            return true;
    LIST_FOREACH (other, &pool->contexts, link)
        TAILQ_FOREACH (fence, &other->fences, link)
            if (is_event_of(fence->events, context))
                return true;
    return false;
}
