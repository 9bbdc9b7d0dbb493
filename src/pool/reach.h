/* What a request could be served from at best: what can never be had costs no idle memory, and no
 * wait. All of this may be said too high, never too low. */
#ifndef POOLCUDA_POOL_REACH_H
#define POOLCUDA_POOL_REACH_H

#include "pool/request.h"

/* The least that the request takes. */
uint64_t reach_least(const struct request *request);

/* Whether the request fits into the device, or the host, at all. Managed memory may be larger than
 * any device. Lock not held. */
bool reach_has_room(const struct request *request);

/* Whether giving all idle memory up could make room for it beside what the driver has. *lack: what
 * is to be given up first; NULL: surely, not only if the driver has more than it says. What is
 * freed meanwhile is idle when that is looked at, after the driver was asked; who gives something
 * back meanwhile may be missed by both, and so is noticed apart. Lock not held. */
bool reach_idle_helps(struct pool *pool, const struct request *request, size_t *lack);

/* Whether it fits beside what the program has asked for and not freed. Where it does not, nothing
 * that is idle or comes back helps, and natively it would have been refused just now, too. What
 * caches of threads have served or freed may not be counted yet. Lock held. */
bool reach_leaves_room(const struct pool *pool, const struct request *request);

/* Whether it fits beside the program's own live memory, whatever other processes give up. Lock not
 * held. */
bool reach_others_may_help(struct pool *pool, const struct request *request);

#endif
