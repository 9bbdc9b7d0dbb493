/* How a handler of fork takes the library's locks. */
#ifndef POOLCUDA_BASE_FORK_LOCK_H
#define POOLCUDA_BASE_FORK_LOCK_H

#include "base/lock.h"

#include <stdbool.h>

/* False: the lock has not been taken. */
typedef bool lock_taker(pthread_mutex_t *mutex, enum lock_rank rank);

/* The taker that waits. */
static inline bool lock_take_at_last(pthread_mutex_t *mutex, enum lock_rank rank) {
    lock_take(mutex, rank);
    return true;
}

#endif
