/* Fences of waits that are made at once, for drivers without cuCtxRecordEvent: an event behind the
 * work of each stream. The host waits for these rather than for the context, so that a capture may
 * begin meanwhile on another thread.
 *
 * An event in the legacy stream comes after all work of blocking streams, created ones and those of
 * threads' own, and their later work comes after it. Natively a free puts nothing behind anything.
 * So that event must change nothing: there may be one blocking stream at most. */
#include "pool/fence_parts.h"

#include <stdlib.h>

/* Whether the streams' work is covered by events that keep no later work back. Lock held. */
static bool can_fence(const struct pool *pool) {
    lock_check_held(LOCK_POOL);
    const struct driver *driver = pool->driver;
    return !driver->ctx_record_event && driver->event_create && driver->event_record &&
           driver->event_synchronize && driver->thread_exchange_capture_mode &&
           !pool->streams_lost && !pool->lasting[WAIT_REASON_stream] &&
           pool->blocking_streams <= 1 && !atomic_load(&pool->per_thread_used);
}

static void destroy(struct pool *pool, struct fence *fence) {
    pool_lock(pool);
    fence_recycle_events(fence->events);
    pool_unlock_between(pool);
    free(fence);
}

struct fence *fence_now(struct pool *pool, const struct context *owner) {
    lock_check_none();
    struct fence_target targets[FENCE_TARGETS];
    struct fence *fence = pool->driver->ctx_record_event ? NULL : calloc(1, sizeof *fence);
    if (!fence)
        return NULL;
    fence->only = owner;
    pool_lock(pool);
    int count = can_fence(pool) ? fence_list_targets(pool, owner, targets) : -1;
    fence->left_number = pool->left_number;
    pool_unlock_between(pool);
    if (count > 0 && fence_record(pool, targets, count, fence)) {
        stats_add(STATS_fences, 1);
        return fence;
    }
    destroy(pool, fence);
    return NULL;
}

CUresult fence_now_wait(struct pool *pool, struct fence *fence) {
    lock_check_none();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = CUDA_SUCCESS;
    release_exchange_capture_mode(pool, &mode);
    pool_lock(pool);
    bool passed = fence_left_events_pass(pool, fence, FENCE_WAITS_BESIDE_CAPTURES);
    pool_unlock_between(pool);
    for (struct fence_event *event = fence->events; event && result == CUDA_SUCCESS;
         event = event->next)
        result = fence_event_passes(pool, event, FENCE_WAITS_BESIDE_CAPTURES);
    release_exchange_capture_mode(pool, &mode);
    destroy(pool, fence);
    return result == CUDA_SUCCESS && !passed ? CUDA_ERROR_NOT_SUPPORTED : result;
}
