/* The library's locks and the order in which one thread may take them: only ever one of a higher
 * rank than it holds. None is held across a call of the driver or a look-up through the loader:
 * both take locks of their own, under which other threads may be waiting for ours.
 *
 * Threads' caches have locks of another kind and without a rank (pool/cache.h): taken under the
 * pool's lock, or alone, and then another cache's is only tried. None is held across a call of the
 * driver either: quick.h asks for the current context before, cache_miss.c for memory in between.
 *
 * With POOLCUDA_CHECK_LOCKS (test builds) a breach of either rule by a lock of these ranks ends the
 * process. */
#ifndef POOLCUDA_LOCK_H
#define POOLCUDA_LOCK_H

#include <pthread.h>

enum lock_rank {
    LOCK_START,    /* state.c: the library's state in this process */
    LOCK_LOADER,   /* what has been learnt about modules and their code */
    LOCK_CHECK,    /* src/check: its records */
    LOCK_POOL,     /* the pool's records */
    LOCK_RECORDER, /* recorder.c: the file of POOLCUDA_TRACE */
};

#ifdef POOLCUDA_CHECK_LOCKS
void lock_check_take(enum lock_rank rank);
void lock_check_drop(enum lock_rank rank);
/* To be called where no lock may be held. */
void lock_check_none(void);
#else
static inline void lock_check_take(enum lock_rank rank) {
    (void)rank;
}
static inline void lock_check_drop(enum lock_rank rank) {
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
