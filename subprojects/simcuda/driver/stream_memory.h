/* Operations that make a stream wait for words of memory and write them. All below: lock held. */
#ifndef SIMCUDA_STREAM_MEMORY_H
#define SIMCUDA_STREAM_MEMORY_H

#include "op.h"

/* The first versions of the functions know one flag more and one operation less. */
enum stream_memory_version { STREAM_MEMORY_V1 = 1, STREAM_MEMORY_V2 };

/* Makes one operation of a batch; nothing of `batch` is needed afterwards. */
CUresult stream_memory_op(const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch,
                          enum stream_memory_version version, struct op **made);

/* Whether an executable graph may do `to` where it does `from`, both made by the above. */
bool stream_memory_may_become(const struct op *from, const struct op *to);

#endif
