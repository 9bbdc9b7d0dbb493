/* Calls that change what the driver knows of managed memory (class MANAGED_STATE of
 * entry_points.def), where such memory is pooled.
 *
 * name: as in that table, or without its ending. arguments: as in registers; all that matter are.
 */
#ifndef POOLCUDA_INTERPOSE_MANAGED_CALLS_H
#define POOLCUDA_INTERPOSE_MANAGED_CALLS_H

#include "pool/pool.h"

/* Before the call. False: it is about memory that natively does not exist, and must fail. May
 * correct an argument that speaks of a block's size. */
bool managed_call_begins(struct pool *pool, const char *name, uint64_t *arguments);

/* After it has succeeded; one that fails has done nothing. */
void managed_call_succeeded(struct pool *pool, const char *name, const uint64_t *arguments);

#endif
