/* The driver's pool of one store: what the policy `async` has. */
#ifndef POOLCUDA_POLICY_ASYNC_H
#define POOLCUDA_POLICY_ASYNC_H

#include "policy/policy.h"

/* Invariant: memory_pool and stream are NULL until they are needed; stream is of the store's
 * context and not set without memory_pool. `cannot`: this device has no memory pools. The store's
 * `unused` bytes are reserved - given, or 0. */
struct driver_pool {
    CUmemoryPool memory_pool;
    CUstream stream; /* the store's own, in which it allocates */
    bool cannot;
    uint64_t reserved;       /* bytes that memory_pool held when it was last asked */
    uint64_t given;          /* bytes allocated from it and not yet given back */
    uint64_t until_asked;    /* bytes that may be allocated before it is asked what can be had */
    struct block_list freed; /* idle blocks on their way to memory_pool */
};

struct driver_pool *driver_pool_detach(struct idle_store *store); /* lock held */

/* Destroys the stream: the context that it belongs to is about to end, without the store. Lock not
 * held. */
void driver_pool_end_stream(struct pool *pool, struct context *context);

/* Ends what a store had (NULL: nothing): the driver's pool goes with its last allocation.
 * stream_gone: its context has ended already. Lock not held. */
void driver_pool_end(struct pool *pool, struct driver_pool *async, bool stream_gone);

/* `bytes` of the store's context were given back to memory_pool, by whomever. Lock held. */
void driver_pool_gave_back(struct pool *pool, struct context *context, size_t bytes);

#endif
