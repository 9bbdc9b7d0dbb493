/* What becomes of the wait that belongs to a free: made, owed and paid later, or replaced by a
 * fence.
 *
 * An owed wait changes nothing that a program can see as long as
 * - all work on the device is in the legacy stream, so that work on a block's new life comes after
 *   the work on its old one by itself,
 * - no memory tells the host, another process or another device about that work without a call,
 * - every call that could tell is preceded by the wait (pool_pay).
 * The first two are the reasons counted here; the third is the business of the hooks. */
#include "pool/internal.h"

#include "clock.h"
#include "planted.h"

bool wait_is_owed(const struct pool *pool) {
    return atomic_load_explicit(pool->owed_flag, memory_order_acquire);
}

/* Lock held. */
static void set_owed(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    pool->owed_context = context;
    pool->owed_number++;
    atomic_store(pool->owed_flag, context != NULL);
}

/* What to do about the wait of a free of any block but the context's last. */
static enum wait_choice choice_in_context(const struct pool *pool, const struct context *context,
                                          enum wait_reason *reason) {
    *reason = WAIT_REASON_no_fence;
    if (pool->config.free_mode == POOL_FREE_DEFER)
        return pool->streams_lost || !pool->driver->event_synchronize ? WAIT_NOW : WAIT_DEFERRED;
    *reason = WAIT_REASON_sync_mode;
    if (pool->config.free_mode == POOL_FREE_SYNC)
        return WAIT_NOW;
    for (int i = 0; pool->reason_sum && i < WAIT_REASONS; i++) {
        *reason = (enum wait_reason)i;
        if (pool->reasons[i])
            return WAIT_NOW;
    }
    *reason = WAIT_REASON_contexts;
    if (context_are_several(pool))
        return WAIT_NOW;
    *reason = WAIT_REASON_pageable;
    if (context->device->pageable_access)
        return WAIT_NOW;
    *reason = WAIT_REASON_pending;
    return pool->pending_seen != pool->pending ? WAIT_NOW : WAIT_OWED;
}

enum wait_choice wait_choice(const struct pool *pool, const struct pool_block *block,
                             enum wait_reason *reason) {
    enum wait_choice kind = choice_in_context(pool, block->context, reason);
    enum pool_memory memory = block->context->kind.memory;
    /* its next owner touches it */
    bool touched_at_once = kind == WAIT_OWED && memory != POOL_DEVICE;
    if (touched_at_once || (kind == WAIT_DEFERRED && managed_is_marked(block))) {
        *reason = memory == POOL_HOST ? WAIT_REASON_pinned : WAIT_REASON_managed;
        return WAIT_NOW;
    }
    if (kind != WAIT_OWED)
        return kind;
    /* The last block's free waits, so that late errors and the device's printf come out where they
     * did. */
    *reason = WAIT_REASON_last_block;
    return block->context->live_blocks > 1 ? WAIT_OWED : WAIT_NOW;
}

bool wait_is_skipped(const struct pool *pool, const struct context *context) {
    lock_check_held(LOCK_POOL);
    enum wait_reason reason;
    switch (choice_in_context(pool, context, &reason)) {
    case WAIT_DEFERRED:
        return true;
    case WAIT_OWED:
        return pool->owed_context == context;
    case WAIT_NOW:
        break;
    }
    return false;
}

void wait_owe(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    set_owed(pool, context);
    stats_add(STATS_waits_owed, 1);
}

void wait_owe_more(struct pool *pool, uint64_t frees) {
    lock_check_held(LOCK_POOL);
    pool->owed_number++;
    stats_add(STATS_waits_owed, frees);
}

/* Notes that all work submitted to `context` is done. Lock held. */
static void note_done(struct pool *pool, uint64_t owed_number, uint64_t pending) {
    lock_check_held(LOCK_POOL);
    if (pool->owed_context && pool->owed_number == owed_number)
        set_owed(pool, NULL);
    pool->pending_seen = pending;
}

/* Counts a wait that began then. */
static void count_time_since(uint64_t began) {
    stats_add(STATS_wait_ns, clock_ns(CLOCK_MONOTONIC) - began);
}

CUresult wait_make(struct pool *pool, struct context *context, enum wait_reason reason) {
    lock_check_held(LOCK_POOL);
    uint64_t owed_number = pool->owed_number, pending = pool->pending;
    pool_unlock_between(pool);
    stats_add(STATS_free_waited, 1);
    stats_wait(reason);
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    CUresult result = PLANTED(no_wait) ? CUDA_SUCCESS : context_wait(pool, context);
    count_time_since(began);
    context_note_error(pool, context, result);
    pool_lock(pool);
    if (result == CUDA_SUCCESS)
        note_done(pool, owed_number, pending);
    return result;
}

/* Waits for the context of the owed wait. The gate is the caller's. */
static void pay(struct pool *pool, const char *call) {
    pool_lock(pool);
    struct context *context = pool->owed_context;
    uint64_t owed_number = pool->owed_number, pending = pool->pending;
    if (!context) {
        pool_unlock(pool);
        return;
    }
    pool_unlock_between(pool);
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    CUresult result = context_wait_inside(pool, context);
    if (result !=
        CUDA_SUCCESS) /* the call that follows must not be let through because of a passing error */
        result = context_wait_inside(pool, context);
    count_time_since(began);
    context_note_error(pool, context, result);
    pool_lock(pool);
    if (pool->owed_number == owed_number) {
        stats_add(STATS_waits_paid, 1);
        stats_payer(call);
        set_owed(pool, NULL); /* also after a failed wait: the call itself will return the error */
    }
    if (result == CUDA_SUCCESS)
        pool->pending_seen = pending;
    pool_unlock(pool);
}

void pool_pay(struct pool *pool, const char *call) {
    if (PLANTED(query_after_owed_wait))
        return;
    while (wait_is_owed(pool)) {
        if (gate_enter(pool)) {
            pay(pool, call);
            gate_leave(pool);
            return;
        }
        gate_await_open_or_paid(pool); /* the capture that begins pays first */
    }
}

bool wait_try_pay(struct pool *pool, const char *call) {
    lock_check_none();
    if (!wait_is_owed(pool))
        return true;
    if (!gate_enter(pool))
        return false;
    pay(pool, call);
    gate_leave(pool);
    return true;
}

/* If several captures begin at once only the first pays: the wait of another would invalidate it.
 */
void pool_capture_began(struct pool *pool, const char *call) {
    if (gate_close_begin(pool)) {
        if (wait_is_owed(pool))
            pay(pool, call);
        gate_close_end(pool);
    }
    captures_count_unnamed(pool); /* not before: an end may be reported of one that never counted */
}

void wait_context_ended(struct pool *pool, const struct context *context) {
    lock_check_held(LOCK_POOL);
    if (pool->owed_context == context)
        set_owed(pool, NULL);
}

void wait_forget(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    set_owed(pool, NULL);
    pool->pending_seen = pool->pending;
    pool->reason_sum = 0;
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

void pool_reason_begins(struct pool *pool, enum wait_reason reason) {
    pool_lock(pool);
    count_reason(pool, reason, 1);
    pool_unlock(pool);
}

void pool_reason_ends(struct pool *pool, enum wait_reason reason) {
    pool_lock(pool);
    if (pool->reasons[reason])
        count_reason(pool, reason, (uint64_t)-1);
    pool_unlock(pool);
}

void pool_reason_stays(struct pool *pool, enum wait_reason reason) {
    if (atomic_load_explicit(&pool->lasting[reason], memory_order_relaxed))
        return;
    pool_lock(pool);
    if (!pool->lasting[reason])
        count_reason(pool, reason, 1);
    pool->lasting[reason] = true;
    pool_unlock(pool);
}

void pool_streams_lost(struct pool *pool) {
    pool_lock(pool);
    pool->streams_lost = true;
    pool_unlock(pool);
    pool_reason_stays(pool, WAIT_REASON_stream);
}

void pool_work_pending(struct pool *pool) {
    pool_lock(pool);
    pool->pending++;
    pool_unlock(pool);
}
