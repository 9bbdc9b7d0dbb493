/* Requests of other processes, answered between the program's own calls: see peers/mailbox.h. */
#ifndef POOLCUDA_PEERS_STEER_H
#define POOLCUDA_PEERS_STEER_H

#include "peers/mailbox.h"
#include "pool/pool.h"

/* Answers the request that waits, or leaves it for later. may_wait: the program has just freed
 * memory of the current context, so that a wait for it is no surprise. */
void steer_answer(struct pool *pool, bool may_wait);

static inline void steer_look(struct pool *pool, bool may_wait) {
    if (mailbox_waits())
        steer_answer(pool, may_wait);
}

#endif
