/* Stream-ordered memory pools. All below: lock held. */
#ifndef SIMCUDA_MEMPOOL_H
#define SIMCUDA_MEMPOOL_H

#include "memory.h"

/* To be called when a block of `size` bytes has been released, however. */
void mempool_block_ended(struct CUmemPoolHandle_st *pool, size_t size);

#endif
