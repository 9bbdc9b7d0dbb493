/* Blocks that cuMemFree does not free as the program expects: suballocations (keeper->cuts), and
 * what lies in a memory pool of the driver's. All below: lock held. */
#ifndef POOLCUDA_POOL_SUBALLOCATION_H
#define POOLCUDA_POOL_SUBALLOCATION_H

#include "blocks/reservation.h"
#include "pool/internal.h"

/* Whether a free cannot be the pool's own just now. */
static inline bool suballocation_passes(struct pool *pool, const struct pool_block *block,
                                        CUcontext current) {
    lock_check_held(LOCK_POOL);
    return !current || block->context->broken || context_is_lost(pool, current) ||
           atomic_load(&pool->down);
}

/* Whether the driver knows the block as an allocation of its own. */
bool suballocation_is_allocation(const struct pool_block *block);
/* A region's block has been given to the driver, which may have refused it. */
void suballocation_released(struct pool_block *block, bool refused);
/* Cuts an idle block that is kept, at an address inside: both parts are kept, and not merged. False
 * without host memory. */
bool suballocation_cut_at(struct pool *pool, struct pool_block *block, uint64_t address);
/* To be called before a block is kept: no request may get what the driver
 * keeps state in for others. */
void suballocation_taint(struct pool *pool, struct pool_block *block);
/* Whether a block of mapped memory, in whatever state, lies in a chunk with a bar. */
bool suballocation_is_barred(const struct pool_block *block);
/* Lifts the bars of the context's chunks that nothing but an attribute has: for a request that
 * would fail. Whether there were any. O(n) in the chunks. */
bool suballocation_lift_bars(struct pool *pool, struct context *context);
/* How many bytes suballocation_take_out would take. */
size_t suballocation_part_bytes(const struct pool_block *block, size_t most);
/* Takes an idle block out of its keeper: of mapped memory the last whole chunks, as many as are at
 * most `most` bytes, but one at least. NULL without host memory. */
struct pool_block *suballocation_take_out(struct pool *pool, struct pool_block *block, size_t most);
/* Cuts an idle block that is kept nowhere: its last `bytes`, if any, are another. */
void suballocation_cut(struct pool *pool, struct pool_block *block, size_t bytes);
/* Makes a region without live blocks one block that is kept nowhere. NULL: there is none. */
struct pool_block *suballocation_without_live(struct pool *pool, struct context *context);
/* Makes of a region that the driver has just given a live block for the request, and idle memory.
 * NULL without host memory. */
struct pool_block *suballocation_adopt(struct pool *pool, const struct request *request,
                                       const struct obtained *obtained);
/* The block, in whatever state, that contains the address. */
struct pool_block *suballocation_find(struct pool *pool, CUdeviceptr address);
/* Whether the block was cut from a region, and the driver does not know it as an allocation of its
 * own. */
bool suballocation_is_part(const struct pool_block *block);

#endif
