/* What becomes of the wait that belongs to a free: made at once, owed and paid later, or left to a
 * fence behind which the block serves again.
 *
 * src/order says when an owed wait changes nothing that a program can see. The reasons counted here
 * are what it cannot know of: memory that tells the host, another process or another device about
 * work without a call. */
#include "pool/internal.h"

#include "planted.h"
#include "thread_marks.h"

static const uint64_t EVERY_DEVICE = UINT64_MAX;

/* Devices beyond the 63rd share a bit. */
static uint64_t device_bit(CUdevice ordinal) {
    return (uint64_t)1 << (ordinal >= 0 && ordinal < 63 ? ordinal : 63);
}

/* Access to a device's memory does not make that device reach others'. Memory that is no device's
 * is everybody's. */
static bool is_reached(const struct pool *pool, const struct context *context) {
    return pool->reasons[WAIT_REASON_peer] &&
           (context->kind.memory != POOL_DEVICE || PLANTED(peers_are_everywhere) ||
            pool->reached_devices & device_bit(context->ordinal));
}

bool wait_reaches_others(const struct pool *pool, const struct context *context) {
    lock_check_held(LOCK_POOL);
    return pool->reason_sum && (is_reached(pool, context) || pool->reasons[WAIT_REASON_green] ||
                                pool->reasons[WAIT_REASON_contexts]);
}

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
        if (pool->reasons[i] && (i != WAIT_REASON_peer || is_reached(pool, context)))
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

void wait_forget(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    order_forget(&pool->order);
    pool->pending_seen = pool->pending;
    pool->reason_sum = 0;
    pool->reached_devices = 0;
    pool->host_reached = false;
    for (int i = 0; i < WAIT_REASONS; i++) {
        pool->reasons[i] = 0;
        pool->lasting[i] = false;
    }
}

/* Lock held; change is 1 or -1 in unsigned arithmetic that may wrap. */
static void count_reason(struct pool *pool, enum wait_reason reason, uint64_t change) {
    lock_check_held(LOCK_POOL);
    pool->reasons[reason] += change;
    pool->reason_sum += change;
}

/* Lock held. */
static void note_reached(struct pool *pool, enum wait_reason reason, uint64_t devices) {
    lock_check_held(LOCK_POOL);
    pool->reached_devices |= reason == WAIT_REASON_peer ? devices : 0;
}

void pool_reason_begins(struct pool *pool, enum wait_reason reason) {
    pool_lock(pool);
    note_reached(pool, reason, EVERY_DEVICE);
    count_reason(pool, reason, 1);
    pool_unlock(pool);
}

void pool_reason_ends(struct pool *pool, enum wait_reason reason) {
    pool_lock(pool);
    if (pool->reasons[reason])
        count_reason(pool, reason, (uint64_t)-1);
    pool_unlock(pool);
}

static void stay(struct pool *pool, enum wait_reason reason, uint64_t devices) {
    if (reason != WAIT_REASON_peer &&
        atomic_load_explicit(&pool->lasting[reason], memory_order_relaxed))
        return;
    pool_lock(pool);
    note_reached(pool, reason, devices);
    if (!pool->lasting[reason])
        count_reason(pool, reason, 1);
    pool->lasting[reason] = true;
    pool_unlock(pool);
}

void pool_reason_stays(struct pool *pool, enum wait_reason reason) {
    stay(pool, reason, EVERY_DEVICE);
}

/* The program's call is about to use the context, so this may, whether the pool knows it or not. */
void pool_peer_reaches(struct pool *pool, CUcontext owner) {
    const struct driver *driver = pool->driver;
    CUcontext popped;
    CUdevice ordinal;
    uint64_t devices = EVERY_DEVICE;
    if (owner && driver->ctx_push_current(owner) == CUDA_SUCCESS) {
        if (driver->ctx_get_device(&ordinal) == CUDA_SUCCESS)
            devices = device_bit(ordinal);
        driver->ctx_pop_current(&popped);
    }
    stay(pool, WAIT_REASON_peer, devices);
}

void pool_streams_lost(struct pool *pool) {
    pool_lock(pool);
    pool->streams_lost = true;
    pool_unlock(pool);
    pool_reason_stays(pool, WAIT_REASON_stream);
}

/* With the lock, so that no cache serves a free any more that would owe. */
void pool_host_address_given(struct pool *pool) {
    pool_lock(pool);
    pool->host_reached = true;
    pool_unlock(pool);
}

void pool_work_pending(struct pool *pool) {
    pool_lock(pool);
    pool->pending++;
    pool_unlock(pool);
}
