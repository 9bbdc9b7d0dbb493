/* Deferred frees: a block is kept unfenced until something is submitted or a malloc wants it; then
 * one fence covers all that were freed before, and they become idle once it has passed.
 *
 * A fence is a set of events that together come after all work that may use its blocks. It is
 * recorded after its blocks were freed, never before: each context's unfenced blocks are taken as
 * they are when the recording begins. */
#include "pool/fence_parts.h"

#include <stdlib.h>

enum { MAX_TARGETS = 64 };

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

static CUresult record(struct pool *pool, const struct fence_target *target, CUevent event) {
    const struct driver *driver = pool->driver;
    if (driver->ctx_record_event)
        return driver->ctx_record_event(target->context->handle, event);
    return driver->event_record(event, target->stream);
}

bool fence_record(struct pool *pool, const struct fence_target *targets, int count,
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

/* What has to be recorded after all that may use blocks of `only`; NULL: of any context. -1: that
 * is too much, or there is work that no event can come after. Lock held. */
static int list_targets(struct pool *pool, const struct context *only,
                        struct fence_target *targets) {
    lock_check_held(LOCK_POOL);
    CUstream legacy =
        PLANTED(per_thread_stream_not_fenced) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    int count = 0;
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->broken || !context_is_first(pool, context) ||
            (only && context->handle != only->handle))
            continue;
        if (count == MAX_TARGETS)
            return -1;
        targets[count++] = (struct fence_target){context, legacy};
    }
    if (pool->driver->ctx_record_event)
        return count;
    if (pool->streams_lost)
        return -1;
    struct free_stream *stream;
    LIST_FOREACH (stream, &pool->free_streams, link) {
        if (only && stream->context->handle != only->handle)
            continue;
        if (count == MAX_TARGETS)
            return -1;
        targets[count++] = (struct fence_target){stream->context, stream->handle};
    }
    return count;
}

/* A fence that takes the context's unfenced blocks, and what is to be recorded for it. Both are
 * looked at inside the gate: a stream that ends then either is a target, and stays until the fence
 * is recorded, or has left its event. NULL: that cannot be done now. Lock held. */
static struct fence *begin(struct pool *pool, struct context *context, struct fence_target *targets,
                           int *count) {
    lock_check_held(LOCK_POOL);
    struct fence *fence = calloc(1, sizeof *fence);
    bool all = pool->reasons[WAIT_REASON_green] || wait_reaches_others(pool, context);
    const struct context *only = all ? NULL : context; /* green ones have streams of their own */
    *count = list_targets(pool, only, targets);
    if (!fence || *count < 0) {
        free(fence);
        return NULL;
    }
    fence_move_blocks(&context->unfenced, &fence->blocks);
    fence->only = only;
    fence->left_number = pool->left_number;
    fence->users = 1;
    fence->number = ++pool->fences;
    pool->fences_recording++;
    TAILQ_INSERT_TAIL(&context->fences, fence, link);
    return fence;
}

bool fence_unfenced(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct fence_target targets[MAX_TARGETS];
    int count;
    if (LIST_EMPTY(&context->unfenced))
        return true;
    if (!pool_gate_enter(pool))
        return false;
    struct fence *fence = begin(pool, context, targets, &count);
    if (!fence) {
        pool_gate_leave(pool);
        return false;
    }
    pool_unlock_between(pool);
    bool recorded = fence_record(pool, targets, count, fence);
    pool_gate_leave(pool);
    pool_lock(pool);
    if (!fence->given_up && pool->fences_recording) /* else this is a forked child */
        pool->fences_recording--;
    fence->users--;
    fence->recorded = recorded;
    if (!recorded)
        fence_move_blocks(&fence->blocks, &context->unfenced);
    else
        stats_add(STATS_fences, 1);
    if (!recorded || fence->gone)
        fence_drop_if_unused(context, fence);
    return recorded;
}

/* Lock not held. */
static CUresult event_passes(struct pool *pool, const struct fence_event *event,
                             enum fence_look how) {
    lock_check_none();
    bool gated = how != FENCE_WAITS_BESIDE_CAPTURES;
    if (gated && !pool_gate_enter(pool))
        return CUDA_ERROR_NOT_READY;
    uint64_t began = how == FENCE_WAITS ? clock_ns(CLOCK_MONOTONIC) : 0;
    CUresult result = how == FENCE_ASKS ? pool->driver->event_query(event->event)
                                        : pool->driver->event_synchronize(event->event);
    if (how == FENCE_WAITS)
        stats_add(STATS_wait_ns, clock_ns(CLOCK_MONOTONIC) - began);
    if (gated)
        pool_gate_leave(pool);
    if (result != CUDA_ERROR_NOT_READY)
        pool_note_error(pool, result);
    return result;
}

bool fence_left_events_pass(struct pool *pool, const struct fence *fence, enum fence_look how) {
    lock_check_held(LOCK_POOL);
    struct left_event *left;
    for (;;) {
        LIST_FOREACH (left, &pool->left_events, link)
            if (left->number <= fence->left_number &&
                (!fence->only || left->event->context->handle == fence->only->handle))
                break;
        if (!left)
            return true;
        left->users++;
        pool_unlock_between(pool);
        bool passed = event_passes(pool, left->event, how) == CUDA_SUCCESS;
        pool_lock(pool);
        left->users--;
        if (passed && !left->gone) {
            LIST_REMOVE(left, link);
            left->gone = true;
        }
        if (left->gone)
            fence_drop_left_if_unused(left);
        if (!passed)
            return false;
    }
}

bool fence_passes(struct pool *pool, struct context *context, struct fence *fence, bool wait) {
    lock_check_held(LOCK_POOL);
    CUresult result = CUDA_SUCCESS;
    enum fence_look how = wait ? FENCE_WAITS : FENCE_ASKS;
    fence->users++;
    bool passed = fence_left_events_pass(pool, fence, how);
    pool_unlock_between(pool);
    for (struct fence_event *event = fence->events; event && passed && result == CUDA_SUCCESS;
         event = event->next)
        result = event_passes(pool, event, how);
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
        fence_move_blocks(&fence->blocks, &context->unfenced);
    if (passed || lost || fence->gone)
        fence_drop_if_unused(context, fence);
    return passed;
}

/* Looks at the fences, oldest first, up to the first that has not passed. Lock as above. */
static void poll(struct pool *pool, struct context *context) {
    struct fence *fence;
    while (!context->ended && (fence = TAILQ_FIRST(&context->fences)) &&
           // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): one that has passed is in the list no more
           fence->recorded && !fence->users && fence_passes(pool, context, fence, false)) {
    }
}

void fence_poll(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    fence_unfenced(pool, context);
    poll(pool, context);
}

bool fence_await(struct pool *pool, struct context *context, const struct site *site, size_t size) {
    lock_check_held(LOCK_POOL);
    struct fence *fence = fence_worth_waiting(pool, context, site, size);
    if (!fence)
        return false;
    stats_add(STATS_fences_waited, 1);
    return fence_passes(pool, context, fence, true) && !context->ended;
}

void fence_drain_own(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    fence_unfenced(pool, context);
    while (!context->ended && fence_last_own(context) &&
           fence_passes(pool, context, fence_oldest(context), true)) {
    }
}

/* A context with something unfenced that is none of the visited ones. NULL: there is none. Lock
 * held. */
static struct context *next_unfenced(const struct pool *pool, const struct context *const *visited,
                                     int count) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        int i = 0;
        while (i < count && visited[i] != context)
            i++;
        if (i == count && !context->broken && !LIST_EMPTY(&context->unfenced))
            return context;
    }
    return NULL;
}

/* Fences what has been freed in any context so far, each context once: others free on meanwhile.
 * Some may end, and the list is another one then. False: not all of it, which is fenced later and
 * then with more than is needed. Lock held on entry and return, not in between. */
static bool fence_all_unfenced(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    const struct context *visited[MAX_TARGETS];
    struct context *context;
    bool all = true;
    int count = 0;
    while (count < MAX_TARGETS && (context = next_unfenced(pool, visited, count))) {
        visited[count++] = context;
        all = (fence_unfenced(pool, context) || context->ended) && all;
    }
    return all;
}

/* Whether one of the fences up to that number is being recorded. Lock held. */
static bool is_recording(const struct pool *pool, uint64_t number) {
    lock_check_held(LOCK_POOL);
    const struct context *context;
    const struct fence *fence;
    if (!pool->fences_recording)
        return false;
    LIST_FOREACH (context, &pool->contexts, link)
        TAILQ_FOREACH (fence, &context->fences, link)
            if (!fence->recorded && !fence->given_up && fence->number <= number)
                return true;
    return false;
}

/* Lock held. */
static void give_up_recording(struct pool *pool, uint64_t number) {
    lock_check_held(LOCK_POOL);
    const struct context *context;
    struct fence *fence;
    LIST_FOREACH (context, &pool->contexts, link)
        TAILQ_FOREACH (fence, &context->fences, link)
            if (!fence->recorded && !fence->given_up && fence->number <= number) {
                fence->given_up = true;
                pool->fences_recording--;
            }
}

/* Until other threads have recorded the fences that they have begun so far. One that takes too long
 * may have been cancelled in the driver: it is not waited for any more. Lock held on entry and
 * return, not in between. */
static void await_recording(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    uint64_t number = pool->fences, began = 0;
    while (is_recording(pool, number)) {
        uint64_t now = clock_ns(CLOCK_MONOTONIC);
        began = began ? began : now;
        if (now - began > ORDER_RECORD_NS) {
            give_up_recording(pool, number);
            return;
        }
        pool_unlock_between(pool);
        futex_pause();
        pool_lock(pool);
    }
}

/* Lock held. */
static bool is_any_unfenced(const struct pool *pool) {
    lock_check_held(LOCK_POOL);
    const struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (!context->broken && !LIST_EMPTY(&context->unfenced))
            return true;
    return false;
}

/* The bit stays as long as a fence is being recorded: other threads' submissions come here, too,
 * and wait for that. It also stays while only a capture is in the way: then no more is fenced later
 * than has to be. */
void fence_before_submission(struct pool *pool) {
    lock_check_none();
    if (PLANTED(fence_after_submission))
        return;
    pool_lock(pool);
    bool all = fence_all_unfenced(pool);
    await_recording(pool);
    if (pool->fences_recording == 0 &&
        (all ? !is_any_unfenced(pool) : !atomic_load(&pool->captures)))
        atomic_fetch_and(&order_word, ~ORDER_DEFERRED);
    pool_unlock(pool);
}

/* Fences of waits that are made at once, for drivers without cuCtxRecordEvent: an event behind the
 * work of each stream. The host waits for these rather than for the context, so that a capture may
 * begin meanwhile on another thread.
 *
 * An event in the legacy stream comes after all work of blocking streams, created ones and those of
 * threads' own, and their later work comes after it. Natively a free puts nothing behind anything.
 * So that event must change nothing: there may be one blocking stream at most. */

/* Whether the streams' work is covered by events that keep no later work back. Lock held. */
static bool can_fence(const struct pool *pool) {
    lock_check_held(LOCK_POOL);
    const struct driver *driver = pool->driver;
    return !driver->ctx_record_event && driver->event_create && driver->event_record &&
           driver->event_synchronize && driver->thread_exchange_capture_mode &&
           !pool->streams_lost && !pool->lasting[WAIT_REASON_stream] &&
           pool->blocking_streams <= 1 && !atomic_load(&pool->per_thread_used);
}

static void destroy_now(struct pool *pool, struct fence *fence) {
    pool_lock(pool);
    fence_recycle_events(fence->events);
    pool_unlock_between(pool);
    free(fence);
}

struct fence *fence_now(struct pool *pool, const struct context *owner) {
    lock_check_none();
    struct fence_target targets[MAX_TARGETS];
    struct fence *fence = pool->driver->ctx_record_event ? NULL : calloc(1, sizeof *fence);
    if (!fence)
        return NULL;
    fence->only = owner;
    pool_lock(pool);
    int count = can_fence(pool) ? list_targets(pool, owner, targets) : -1;
    fence->left_number = pool->left_number;
    pool_unlock_between(pool);
    if (count > 0 && fence_record(pool, targets, count, fence)) {
        stats_add(STATS_fences, 1);
        return fence;
    }
    destroy_now(pool, fence);
    return NULL;
}

/* Looks at it, or waits for it, and destroys it. Lock not held. */
static CUresult end_now(struct pool *pool, struct fence *fence, enum fence_look how) {
    lock_check_none();
    CUresult result = CUDA_SUCCESS;
    pool_lock(pool);
    bool passed = fence_left_events_pass(pool, fence, how);
    pool_unlock_between(pool);
    for (struct fence_event *event = fence->events; event && result == CUDA_SUCCESS;
         event = event->next)
        result = event_passes(pool, event, how);
    destroy_now(pool, fence);
    if (result == CUDA_SUCCESS && !passed)
        return how == FENCE_ASKS ? CUDA_ERROR_NOT_READY : CUDA_ERROR_NOT_SUPPORTED;
    return result;
}

CUresult fence_now_query(struct pool *pool, struct fence *fence) {
    lock_check_none();
    return end_now(pool, fence, FENCE_ASKS);
}

CUresult fence_now_wait(struct pool *pool, struct fence *fence) {
    lock_check_none();
    return end_now(pool, fence, FENCE_WAITS_BESIDE_CAPTURES);
}
