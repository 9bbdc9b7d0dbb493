/* What a thread finishes once it has begun, although another has cancelled it: the driver's calls
 * may be places where it ends, and others wait for what it has taken out of the pool's lists and
 * counted there. Not the waits for work: in these it may be cancelled, as in the native ones. */
#ifndef POOLCUDA_POOL_UNCANCELLED_H
#define POOLCUDA_POOL_UNCANCELLED_H

#include "pool/pool_struct.h"
#include "thread_marks.h"

#include <pthread.h>

/* One may lie in another. */
static inline void uncancelled_begins(const struct pool *pool) {
    if (pool->config.set_cancel_state && !thread_marks.uncancelled++)
        pool->config.set_cancel_state(PTHREAD_CANCEL_DISABLE, &thread_marks.cancel_state);
}

static inline void uncancelled_ends(const struct pool *pool) {
    int disabled;
    if (pool->config.set_cancel_state && !--thread_marks.uncancelled)
        pool->config.set_cancel_state(thread_marks.cancel_state, &disabled);
}

#endif
