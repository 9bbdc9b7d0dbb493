// clang-format off
/* The library's locks and the order in which one thread may take them: only ever one of a higher
 * rank than it holds. None is held across a call of the driver or a look-up through the loader:
 * both take locks of their own, under which other threads may be waiting for ours.
 *
 * Threads' caches have locks of another kind and without a rank (pool/cache.h): taken under the
 * pool's lock, or alone, and then another cache's is only tried. None is held across a call of the
 * driver either: cache_open asks for the current context before, cache_miss for memory in
 * between. A lone cache's lock stands for the pool's (cache_making_room.c).
 *
 * A comment at a function tells what its callers do about the lock, in one of these wordings:
 *   Lock held.        The caller has it. "on entry, not on return": the function gives it back.
 *                     "on entry and return, not in between": what was read before may be stale.
 *   Lock not held.    The caller has none of these locks.
 *   Cache locked.     The caller has the lock of `cache`, or the pool's, and so all caches' locks.
 *   Lock not needed.  An exception in a group that says otherwise.
 * "All below: lock held." speaks of the rest of the file, as far as the next group or part of it.
 * "Lock" is the folder's own: the pool's in src/pool, src/keep and src/sources, the check's in
 * src/check, LOCK_ORDER in src/order; elsewhere its rank names it: "LOCK_LOADER held." A function
 * asserts it in its first statement, by lock_check_held, lock_check_none or cache_check_locked;
 * tests/unit/lock_rules.py compares the two, and sees one taking and one giving back, at one level.
 * With POOLCUDA_CHECK_LOCKS (test builds, and -Dcheck_locks=true) a false assertion and a breach of
 * either rule by a lock of these ranks end the process; without it they are no code at all. */
#ifndef POOLCUDA_BASE_LOCK_H // clang-format on
#define POOLCUDA_BASE_LOCK_H

#include <pthread.h>

enum lock_rank {
    LOCK_START,    /* state.c: the library's state in this process */
    LOCK_LOADER,   /* what has been learnt about modules and their code */
    LOCK_CHECK,    /* src/check: its records */
    LOCK_POOL,     /* the pool's records */
    LOCK_ORDER,    /* src/order: what frees owe */
    LOCK_RECORDER, /* recorder.c: the file of POOLCUDA_TRACE */
};

#ifdef POOLCUDA_CHECK_LOCKS
void lock_check_take(enum lock_rank rank);
void lock_check_drop(enum lock_rank rank);
/* To be called where the thread must hold the lock of that rank, and where it may hold none. */
void lock_check_held(enum lock_rank rank);
void lock_check_none(void);
#else
static inline void lock_check_take(enum lock_rank rank) {
    (void)rank;
}
static inline void lock_check_drop(enum lock_rank rank) {
    (void)rank;
}
static inline void lock_check_held(enum lock_rank rank) {
    (void)rank;
}
static inline void lock_check_none(void) {
}
#endif

static inline void lock_take(pthread_mutex_t *mutex, enum lock_rank rank) {
    lock_check_take(rank);
    pthread_mutex_lock(mutex);
}

static inline void lock_drop(pthread_mutex_t *mutex, enum lock_rank rank) {
    pthread_mutex_unlock(mutex);
    lock_check_drop(rank);
}

#endif
