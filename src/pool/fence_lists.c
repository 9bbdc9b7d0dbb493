/* Which blocks are deferred, and which fence each of them waits for: the lists alone. Nothing here
 * calls the driver or lets go of the lock. */
#include "pool/fence_parts.h"

#include "base/by_pointer.h"
#include "order/order.h"
#include "thread_marks.h"

#include <stdlib.h>

void fence_move_blocks(struct block_list *from, struct block_list *to) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    while ((block = LIST_FIRST(from))) {
        LIST_REMOVE(block, in_list);
        LIST_INSERT_HEAD(to, block, in_list);
    }
}

void fence_recycle_events(struct fence_event *events) {
    lock_check_held(LOCK_POOL);
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

void fence_drop_if_unused(struct context *context, struct fence *fence) {
    lock_check_held(LOCK_POOL);
    if (fence->users)
        return;
    if (!fence->gone)
        TAILQ_REMOVE(&context->fences, fence, link);
    fence_recycle_events(fence->events);
    free(fence);
}

void fence_drop_left_if_unused(struct left_event *left) {
    lock_check_held(LOCK_POOL);
    if (left->users)
        return;
    fence_recycle_events(left->event);
    free(left);
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

/* Whether the block, once it is idle, is likely to serve the request. */
static bool would_fit(const struct pool *pool, const struct pool_block *block,
                      const struct site *site, size_t size) {
    const struct keeper *keeper = block->context->keeper;
    if (keeper->keeps_nothing || block->size < size || (keeper->own_site && block->site != site) ||
        (keeper->same_size && block->size != size) ||
        (keeper->fits && !keeper->fits(&block->context->store, block, size)))
        return false;
    return keeper->cuts || (double)block->size <= pool->config.reuse_ratio * (double)size;
}

static bool is_freed_by(const struct fence *fence, uint32_t thread) {
    const struct pool_block *block;
    LIST_FOREACH (block, &fence->blocks, in_list)
        if (block->freed_by == thread)
            return true;
    return false;
}

/* Natively an allocation waits for nothing, but its thread's own frees have waited for what came
 * before them. Nothing is submitted between a free and the recording of its fence, so the fence
 * stands behind no more than that, and neither do those before it. */
struct fence *fence_last_own(struct context *context) {
    lock_check_held(LOCK_POOL);
    uint32_t own = thread_number();
    struct fence *fence;
    TAILQ_FOREACH_REVERSE (fence, &context->fences, fence_list, link)
        if (fence->recorded && (is_freed_by(fence, own) || PLANTED(fence_of_another_thread)))
            return fence;
    return NULL;
}

static bool has_fitting(const struct pool *pool, const struct fence *fence, const struct site *site,
                        size_t size) {
    const struct pool_block *block;
    LIST_FOREACH (block, &fence->blocks, in_list)
        if (would_fit(pool, block, site, size))
            return true;
    return false;
}

/* The first recorded fence up to `last` with a block that fits. */
static struct fence *find_fence(struct pool *pool, struct context *context, struct fence *last,
                                const struct site *site, size_t size) {
    struct fence *fence;
    for (fence = TAILQ_FIRST(&context->fences); fence; fence = TAILQ_NEXT(fence, link)) {
        if (fence->recorded && has_fitting(pool, fence, site, size))
            return fence;
        if (fence == last)
            return NULL;
    }
    return NULL;
}

struct fence *fence_oldest(struct context *context) {
    lock_check_held(LOCK_POOL);
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
    uint64_t deferred = device_idle(device) - context->store.bytes - context->store.unused;
    return deferred >= size && deferred > most;
}

struct fence *fence_worth_waiting(struct pool *pool, struct context *context,
                                  const struct site *site, size_t size) {
    lock_check_held(LOCK_POOL);
    struct fence *last = fence_last_own(context);
    if (!last)
        return NULL;
    struct fence *fence = find_fence(pool, context, last, site, size);
    if (!fence && context->keeper->cuts && is_much_deferred(context, size))
        fence = fence_oldest(context);
    return fence;
}

/* How many deferred blocks are looked at for one of a stream: a stream has mostly freed among the
 * last what it wants next. */
enum { MOST_LOOKED_AT = 64 };

/* The smaller of `best` and the blocks of the list that serve. *left: how many are looked at. */
static struct pool_block *find_freed_in(const struct keeper *keeper, const struct block_list *list,
                                        CUstream stream, const struct fit *fit,
                                        struct pool_block *best, int *left) {
    struct pool_block *block;
    LIST_FOREACH (block, list, in_list) {
        if (--*left < 0)
            break;
        bool ordered = block->freed_in == stream || PLANTED(any_stream_has_it);
        if (ordered && block->size >= fit->size && keeper->serves(block, fit) &&
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
    if (!context->keeper->serves)
        return NULL;
    struct pool_block *best =
        find_freed_in(context->keeper, &context->unfenced, stream, fit, NULL, &left);
    TAILQ_FOREACH_REVERSE (fence, &context->fences, fence_list, link)
        best = find_freed_in(context->keeper, &fence->blocks, stream, fit, best, &left);
    return best;
}

static void forget_order(const struct block_list *list, CUstream stream) {
    struct pool_block *block;
    LIST_FOREACH (block, list, in_list)
        if (block->freed_in == stream)
            block->freed_in = NULL;
}

void fence_forget_order(struct pool *pool, CUstream stream) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    const struct fence *fence;
    LIST_FOREACH (context, &pool->contexts, link) {
        forget_order(&context->unfenced, stream);
        TAILQ_FOREACH (fence, &context->fences, link)
            forget_order(&fence->blocks, stream);
    }
}

/* Whether blocks wait for a fence, or for one to be made. */
static bool is_deferring(const struct context *context) {
    const struct fence *fence;
    bool waits = !LIST_EMPTY(&context->unfenced);
    TAILQ_FOREACH (fence, &context->fences, link)
        waits = waits || !LIST_EMPTY(&fence->blocks);
    return waits;
}

struct context *fence_deferring(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->device == device && !context->broken && is_deferring(context))
            return context;
    return NULL;
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
        fence_drop_if_unused(context, fence);
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
            fence_drop_left_if_unused(left);
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

atomic_bool pool_per_thread_wanted;

void pool_per_thread_used(struct pool *pool) {
    atomic_store(&pool->per_thread_used, true);
    atomic_store(&pool_per_thread_wanted, false);
}

void fence_forget_streams(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    forget_streams_of(pool, NULL);
    pool->streams_lost = false;
    pool->blocking_streams = 0;
    atomic_store(&pool->per_thread_used, false);
    atomic_store(&pool_per_thread_wanted, !pool->driver->ctx_record_event);
    pool->fences_recording = 0;
}

void fence_context_ended(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    forget_streams_of(pool, context);
    fence_forget(context);
}

static bool is_event_of(const struct fence_event *event, const struct context *context) {
    while (event && event->context != context)
        event = event->next;
    return event != NULL;
}

BY_POINTER bool fence_refers_to(const struct pool *pool, const struct context *context) {
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
