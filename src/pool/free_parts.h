/* What the files of frees share. */
#ifndef POOLCUDA_POOL_FREE_PARTS_H
#define POOLCUDA_POOL_FREE_PARTS_H

#include "pool/internal.h"

/* --- free_past.c --- */

/* What is left to do for a block whose free could not be the pool's own: nothing; it is to be kept,
 * as its wait has been made; or until all work is done, as that could not be made. */
enum past { PAST_DONE, PAST_KEPT, PAST_DEFERRED };
/* Frees a live block so. *result is the program's. Lock held on entry and return, not in between.
 */
enum past free_past(struct pool *pool, struct pool_block *block, CUcontext current,
                    CUresult *result);
/* Whether the driver refuses any free of this thread, whose current context the pool does not know:
 * it may have been destroyed. The address may by then be that of another thread's block, which must
 * be there for that thread's own free. Or the block is gone by now. Lock held on entry and return,
 * not in between. */
bool free_is_refused(struct pool *pool, struct pool_block *block, CUresult *result);
/* The context's end was announced during the block's wait. If it lives on after all, the block is
 * the driver's to free; if not, the driver says so. Of a region it frees all or nothing. Lock held
 * on entry, not on return. */
CUresult free_end_forgotten(struct pool *pool, struct pool_block *block);

/* --- free_unknown.c --- */

/* Answers the free of an address where the program has no live block. block: it had one there;
 * NULL: the pool knows of none. Lock held on entry, not on return. */
CUresult free_no_live_block(struct pool *pool, enum pool_memory memory, CUdeviceptr pointer,
                            const struct pool_block *block);

/* --- free.c --- */

/* Whether a live block must really be freed now. Lock held. */
bool free_must_release(struct pool *pool, const struct pool_block *block, CUcontext current);
/* A live block that the program frees, on the long way. Lock held. */
void free_count(struct pool *pool, struct pool_block *block);
/* Defers the block: work may still use it. freed_in is fence_defer's, freed_by the block's. Lock
 * held. */
void free_defer(struct pool *pool, struct pool_block *block, CUstream freed_in, uint32_t freed_by);
/* Keeps a block and gives up what is then too much. wait: WAIT_DEFERRED: work may still use it, and
 * only a fence will tell; WAIT_NOW: the wait of its free has been made; WAIT_OWED: it is owed. Lock
 * held on entry and return, not in between. */
void free_keep(struct pool *pool, struct pool_block *block, enum wait_choice wait);
/* Frees a live block past the pool. Lock held on entry, not on return. */
CUresult free_past_pool(struct pool *pool, struct pool_block *block, CUcontext current);
/* The rest of the free of a WAITING block whose wait has ended with that result. Lock held on
 * entry, not on return. */
CUresult free_waited_for(struct pool *pool, struct pool_block *block, CUresult result);
/* Whether the driver permits this thread no free, given its context. In a host function it has none
 * that the driver tells of; natively a thread without one may free. Lock not needed. */
bool free_is_not_permitted(struct pool *pool, enum pool_memory memory, CUcontext current);
/* memory: POOL_HOST for cuMemFreeHost, POOL_DEVICE for cuMemFree. Lock not needed. */
CUresult free_kind(struct pool *pool, enum pool_memory memory, CUdeviceptr pointer);

#endif
