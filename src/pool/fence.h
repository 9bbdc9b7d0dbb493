/* Deferred blocks and the fences that they wait for: fence.c, fence_lists.c. */
#ifndef POOLCUDA_POOL_FENCE_H
#define POOLCUDA_POOL_FENCE_H

#include "base/lock.h"
#include "pool/context.h"
#include "pool/pool.h"

struct fit;

/* All below: lock held. */

void fence_context_ended(struct pool *pool, struct context *context);
/* Keeps a deferred block, whose freed_by is set, until a fence has passed. Until then freed_in may
 * have it: the stream in whose order it was freed, in its own context; NULL: none. */
void fence_defer(struct pool *pool, struct pool_block *block, CUstream freed_in);
/* Fences what has been freed; blocks whose fence has passed are idle then. Lock held on entry and
 * return, not in between: the context may have ended. */
void fence_poll(struct pool *pool, struct context *context);
/* Waits for a fence whose blocks may serve the request, as far as a free of this thread's would
 * have waited. True: they are idle, so it is worth trying again. Lock held on entry and return, not
 * in between: the context may have ended. */
bool fence_await(struct pool *pool, struct context *context, const struct site *site, size_t size);
/* The best of the deferred blocks that were freed last in the order of `stream`, still deferred;
 * NULL: none serves. */
struct pool_block *fence_find_freed_in(struct context *context, CUstream stream,
                                       const struct fit *fit);
/* Fences what has been freed so far, before something is submitted that its fences need not cover.
 * Lock not held. */
void fence_before_submission(struct pool *pool);
struct pool_block *fence_largest(struct context *context); /* NULL: none is deferred */
/* Waits until nothing of the device is deferred, or as far as that can be done. Lock held on entry
 * and return, not in between. */
void fence_drain(struct pool *pool, const struct device *device);
/* Waits for the fences that an allocation of this thread may wait for. Lock held on entry and
 * return, not in between: the context may have ended. */
void fence_drain_own(struct pool *pool, struct context *context);
void fence_forget(struct context *context); /* as wait_forget */
void fence_forget_streams(struct pool *pool);

/* For a wait that is made at once, of which nobody else knows: a fence of what has been submitted
 * to the context so far, where the driver has no cuCtxRecordEvent. NULL: only the whole context
 * could be waited for. Gate entered. Lock not held. */
struct fence *fence_now(struct pool *pool, const struct context *owner);
/* Whether it has passed; destroys it. Gate entered. Lock not held. */
CUresult fence_now_query(struct pool *pool, struct fence *fence);
/* Waits for it and destroys it. A capture may begin meanwhile. Lock not held. */
CUresult fence_now_wait(struct pool *pool, struct fence *fence);

/* Whether an event of the context stands in some fence, or was left by one of its streams. */
bool fence_refers_to(const struct pool *pool, const struct context *context);

#endif
