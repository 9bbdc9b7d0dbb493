/* What a thread finishes once it has begun, although another has cancelled it: the driver's calls
 * may be places where it ends, and others wait for what it has taken out of the pool's lists and
 * counted there. Not the waits for work that a free of the pool's makes: in these it may be
 * cancelled, as in the native ones. */
#ifndef POOLCUDA_POOL_UNCANCELLED_H
#define POOLCUDA_POOL_UNCANCELLED_H

#include "pool/pool_struct.h"

#include <pthread.h>

/* Returns what the end takes. One such section may lie in another. */
static inline int uncancelled_begins(const struct pool *pool) {
    int former = PTHREAD_CANCEL_ENABLE;
    if (pool->config.set_cancel_state)
        pool->config.set_cancel_state(PTHREAD_CANCEL_DISABLE, &former);
    return former;
}

static inline void uncancelled_ends(const struct pool *pool, int former) {
    int disabled;
    if (pool->config.set_cancel_state)
        pool->config.set_cancel_state(former, &disabled);
}

#endif
