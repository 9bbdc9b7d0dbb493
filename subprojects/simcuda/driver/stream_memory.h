/* Operations that make a stream wait for words of memory and write them. */
#ifndef SIMCUDA_STREAM_MEMORY_H
#define SIMCUDA_STREAM_MEMORY_H

#include "op.h"

/* The first versions of the functions know one flag more and one operation less. */
enum stream_memory_version { STREAM_MEMORY_V1 = 1, STREAM_MEMORY_V2 };

/* Makes one operation of a batch; nothing of `batch` is needed afterwards. Lock held. */
CUresult stream_memory_op(const CUstreamBatchMemOpParams *batch, unsigned int count,
                          enum stream_memory_version version, struct op **made);

#endif
