/* Calls that change what the driver knows of managed memory, where such memory is pooled.
 *
 * arguments: as in registers; all that matter are. */
#ifndef POOLCUDA_INTERPOSE_MANAGED_CALLS_H
#define POOLCUDA_INTERPOSE_MANAGED_CALLS_H

#include "interpose/entry_points.h"
#include "pool/pool.h"

/* Whether the function is one of those. */
bool managed_call_is(const struct entry *entry);

/* Before the call: corrects arguments that speak of a block's size, or of memory that natively does
 * not exist. */
void managed_call_begins(struct pool *pool, const struct entry *entry, uint64_t *arguments);

/* After it has succeeded; one that fails has done nothing. */
void managed_call_succeeded(struct pool *pool, const struct entry *entry,
                            const uint64_t *arguments);

#endif
