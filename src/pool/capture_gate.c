/* The gate between stream captures and the pool's own calls.
 *
 * A wait or an event query is prohibited while a stream is being captured and would invalidate the
 * capture; a program that only allocates and frees must not cause that. So such calls are made
 * inside the gate, which a capture that begins closes, and it begins only when all have left.
 * gate_closing.c says how long that takes. */
#include "pool/internal.h"

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
