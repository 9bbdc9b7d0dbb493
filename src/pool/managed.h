/* Managed memory: what a program has asked for it is undone before another block is made of it. All
 * below: lock held. */
#ifndef POOLCUDA_POOL_MANAGED_H
#define POOLCUDA_POOL_MANAGED_H

#include "blocks/block.h"
#include "pool/pool.h"

/* Whether the state of any block has to be undone. */
bool managed_is_marked(const struct pool_block *block);
/* Undoes it. No work uses the block, whose state is WAITING. False: it could not be done, or the
 * block is GONE, and must not serve again. Lock held on entry and return, not in between. */
bool managed_reset(struct pool *pool, struct pool_block *block);
void managed_begin_life(struct pool_block *block); /* of an idle block of managed memory */

#endif
