/* The pool's lock and its clock; and the gate between stream captures and the pool's own calls.
 *
 * A wait or an event query is prohibited while a stream is being captured and would invalidate the
 * capture; a program that only allocates and frees must not cause that. So such calls are made
 * inside the gate, which a capture that begins closes, and it begins only when all have left.
 * gate_closing.c says how long that takes. */
#include "pool/internal.h"

uint64_t pool_now(const struct pool *pool) {
    return pool->config.clock ? pool->config.clock() : clock_ns(CLOCK_MONOTONIC_COARSE);
}

void pool_lock(struct pool *pool) {
    lock_take(&pool->lock, LOCK_POOL);
    pool->follower.stop(pool);
}

void pool_unlock(struct pool *pool) {
    pool->follower.resume(pool, true);
    lock_drop(&pool->lock, LOCK_POOL);
}

void pool_unlock_between(struct pool *pool) {
    pool->follower.resume(pool, false);
    lock_drop(&pool->lock, LOCK_POOL);
    if (PLANTED(slow_between))
        futex_pause();
}

void pool_grant_anew(struct pool *pool) {
    lock_check_none();
    pool_lock(pool);
    pool_unlock(pool);
}

void pool_note_shutdown(struct pool *pool, CUresult error) {
    lock_check_none();
    if (error != CUDA_ERROR_DEINITIALIZED)
        return;
    atomic_store(&pool->down, true);
    pool_grant_anew(pool);
}

bool pool_gate_enter(struct pool *pool) {
    if (PLANTED(capture_race)) { /* checks too early, and says nothing of being inside */
        bool open = !atomic_load(&pool->captures);
        futex_pause();
        return open;
    }
    atomic_fetch_add(&pool->gate_users, 1);
    if (!atomic_load(&pool->captures) || PLANTED(query_in_capture)) {
        if (PLANTED(slow_gate))
            futex_pause();
        return true;
    }
    atomic_fetch_sub(&pool->gate_users, 1);
    return false;
}

void pool_gate_leave(struct pool *pool) {
    if (!PLANTED(capture_race))
        atomic_fetch_sub(&pool->gate_users, 1);
}

bool pool_is_capturing(struct pool *pool) {
    return atomic_load(&pool->captures) > 0;
}
