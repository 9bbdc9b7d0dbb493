/* Stream-ordered memory pools. Needs the lock held. */
#ifndef POOLCUDA_SIM_MEMPOOL_H
#define POOLCUDA_SIM_MEMPOOL_H

#include "memory.h"

void mempool_block_ending(struct block *block); /* it is being released, however */

#endif
