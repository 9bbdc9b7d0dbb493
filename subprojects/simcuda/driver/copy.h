/* Copies and fills as operations. */
#ifndef SIMCUDA_COPY_H
#define SIMCUDA_COPY_H

#include "stream.h"

/* Runs the copy in `stream` (see stream_resolve). `synchronous`: a plain cuMemcpy, which returns
 * when CUDA says that it does: at once between devices, otherwise when it is done. */
CUresult copy_run(const struct copy *copy, CUstream stream, enum null_stream null_stream,
                  bool synchronous);

#endif
