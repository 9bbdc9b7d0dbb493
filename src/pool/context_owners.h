/* Whose memory contexts use that are not just their device's primary ones: a list of those that the
 * program has made, and, in programs with green contexts, of what has been learnt of others. */
#ifndef POOLCUDA_POOL_CONTEXT_OWNERS_H
#define POOLCUDA_POOL_CONTEXT_OWNERS_H

#include "pool/internal.h"

/* owner: of all that the context's calls allocate: of a green one its device's primary context,
 * else the context itself. made: by the program. What else is in the list stays until a primary
 * context ends, and with it the green ones of its device. */
struct context_owner {
    CUcontext handle, owner;
    bool made;
    struct context_owner *next;
};

/* All but the last: lock held. */

/* Whether the program has made it: no device owns it. */
bool context_is_created(const struct pool *pool, CUcontext handle);
/* The owner, as far as the list tells; else NULL. */
CUcontext context_owner(const struct pool *pool, CUcontext handle);
void context_add_owner(struct pool *pool, CUcontext handle, CUcontext owner, bool made);
void context_forget_owner(struct pool *pool, CUcontext handle);
void context_forget_learnt_owners(struct pool *pool);
void context_forget_owners(struct pool *pool);

/* Whether the current context may be a green one, for all that the driver says. Lock not held. */
bool context_may_be_green(struct pool *pool, CUcontext handle);

#endif
