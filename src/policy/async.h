/* The driver's stream-ordered memory pool of one store: what the policy `async` has. */
#ifndef POOLCUDA_POLICY_ASYNC_H
#define POOLCUDA_POLICY_ASYNC_H

#include "policy/policy.h"

/* Invariant: memory_pool and stream are both set, in the store's context, or both NULL: not yet
 * made, or, with `cannot`, impossible here. The store's `unused` bytes are what memory_pool held
 * beyond its allocations when it was last asked. */
struct async {
    CUmemoryPool memory_pool;
    CUstream stream; /* of its own, in which it allocates */
    bool cannot;
    uint64_t reserved;       /* bytes that memory_pool held when it was last asked */
    struct block_list freed; /* idle blocks on their way to memory_pool */
};

struct async *async_new(void); /* NULL without host memory */

struct async *async_detach(struct store *store);

/* Of a store that ends, NULL for others: lets go of the driver's pool, which goes with its last
 * allocation. Lock not held. */
void async_end(struct pool *pool, struct async *async);

#endif
