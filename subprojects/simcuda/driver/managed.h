/* What a program has said about managed memory. All below: lock held. */
#ifndef SIMCUDA_MANAGED_H
#define SIMCUDA_MANAGED_H

#include "memory.h"
#include "stream.h"

void managed_block_ended(struct block *block);
void managed_stream_ended(const struct CUstream_st *stream); /* and the stream has drained */

#endif
