/* What becomes of the wait that belongs to a free: made at once, owed and paid later, or left to a
 * fence behind which the block serves again.
 *
 * src/order says when an owed wait changes nothing that a program can see. What it cannot know of
 * are the reasons that wait_reasons.c counts. */
#include "pool/internal.h"

#include "order/order.h"
#include "thread_marks.h"

static enum wait_choice now_because(enum wait_reason *reason, enum wait_reason why) {
    *reason = why;
    return WAIT_NOW;
}

/* What to do about the wait of a free of any block but the context's last. thread: the number of
 * the one that frees. */
static enum wait_choice choice_in_context(const struct pool *pool, const struct context *context,
                                          uint32_t thread, enum wait_reason *reason) {
    if (pool->config.free_mode == POOL_FREE_DEFER)
        return pool->streams_lost || !pool->driver->event_synchronize
                   ? now_because(reason, WAIT_REASON_no_fence)
                   : WAIT_DEFERRED;
    if (pool->config.free_mode == POOL_FREE_SYNC)
        return now_because(reason, WAIT_REASON_sync_mode);
    for (int i = 0; pool->reason_sum && i < WAIT_REASONS; i++)
        if (pool->reasons[i] && (i != WAIT_REASON_peer || wait_is_reached(pool, context)))
            return now_because(reason, (enum wait_reason)i);
    if (order_has_crossings(&pool->order))
        return now_because(reason, WAIT_REASON_crossed);
    if (!order_may_owe(&pool->order, thread))
        return now_because(reason, WAIT_REASON_threads);
    enum host_access access = context->device->host_access;
    if (access == HOST_ALWAYS || (access == HOST_BY_ADDRESS && pool->host_reached))
        return now_because(reason, WAIT_REASON_pageable);
    if (pool->pending_seen != pool->pending)
        return now_because(reason, WAIT_REASON_pending);
    return WAIT_OWED;
}

enum wait_choice wait_choice(const struct pool *pool, const struct pool_block *block,
                             enum wait_reason *reason) {
    lock_check_held(LOCK_POOL);
    enum wait_choice kind = choice_in_context(pool, block->context, thread_number(), reason);
    enum pool_memory memory = block->context->kind.memory;
    /* its next owner touches it */
    bool touched_at_once = kind == WAIT_OWED && memory != POOL_DEVICE;
    if (touched_at_once || (kind == WAIT_DEFERRED && managed_is_marked(block)))
        return now_because(reason, memory == POOL_HOST ? WAIT_REASON_pinned : WAIT_REASON_managed);
    if (kind != WAIT_OWED)
        return kind;
    /* The last block's free waits, so that late errors and the device's printf come out where they
     * did. */
    return block->context->live_blocks > 1 ? WAIT_OWED
                                           : now_because(reason, WAIT_REASON_last_block);
}

bool wait_is_skipped(const struct pool *pool, const struct context *context, uint32_t thread) {
    lock_check_held(LOCK_POOL);
    enum wait_reason reason;
    if (order_has_streams_about(&pool->order) && thread_numbers() > CACHE_THREADS)
        thread = 0; /* the cache may be several threads' */
    switch (choice_in_context(pool, context, thread, &reason)) {
    case WAIT_DEFERRED:
        return true;
    case WAIT_OWED:
        return order_is_only(&pool->order, context->handle);
    case WAIT_NOW:
        break;
    }
    return false;
}

void wait_owe(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    order_owe(&pool->order, context->handle);
    wait_owe_more(pool, 1);
}

void wait_owe_more(struct pool *pool, uint64_t frees) {
    lock_check_held(LOCK_POOL);
    pool->owed_number += frees;
    stats_add(STATS_waits_owed, frees);
}
