/* What the pool's own files share. */
#ifndef POOLCUDA_POOL_INTERNAL_H
#define POOLCUDA_POOL_INTERNAL_H

#include "base/clock.h"
#include "base/futex.h"
#include "base/lock.h"
#include "base/planted.h"
#include "base/sizes.h"
#include "pool/bounds.h"
#include "pool/fence.h"
#include "pool/managed.h"
#include "pool/pitch.h"
#include "pool/pool_struct.h"
#include "pool/release.h"
#include "pool/request.h"
#include "pool/wait.h"
#include "sources/kinds.h"

/* lock.c. The clock in nanoseconds. No other clock decides anything, but for how long threads wait
 * for each other. */
uint64_t pool_now(const struct pool *pool);

void pool_lock(struct pool *pool);
void pool_unlock(struct pool *pool);
/* For a call that takes the lock again and needs no cache until then: to start its thread's and
 * stop it again would cost more than what is done in between. */
void pool_unlock_between(struct pool *pool);
/* Caches serve only what they may as things are now, and this thread's goes on. Lock not held. */
void pool_grant_anew(struct pool *pool);
/* Nothing is pooled once the driver has shut down. Lock not held. */
void pool_note_shutdown(struct pool *pool, CUresult error);

/* valid.c, for tests: whether every invariant above is true. Lock not held. */
bool pool_is_valid(struct pool *pool);

#endif
