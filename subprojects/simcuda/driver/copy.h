/* Copies and fills as operations. */
#ifndef SIMCUDA_COPY_H
#define SIMCUDA_COPY_H

#include "stream.h"

/* Runs the copy in `stream` (see stream_resolve). `synchronous`: a plain cuMemcpy, which returns
 * when CUDA says that it does: at once between devices, otherwise when it is done. */
CUresult copy_run(const struct copy *copy, CUstream stream, enum null_stream null_stream,
                  bool synchronous);

/* A copy, of some bytes, as a node of a graph. Lock held. */
CUresult copy_op(const struct copy *copy, struct op **op);

/* What a 3D copy is; false if it cannot be one. Lock held. */
bool copy_from_3d(const CUDA_MEMCPY3D *of, struct copy *copy);

/* Runs the copies in `stream`, which is not the legacy one, in no order among themselves. None is
 * run if one cannot be: *failed says which, SIZE_MAX if it is none of them. */
CUresult copy_run_all(const struct copy *copies, size_t count, CUstream stream,
                      enum null_stream null_stream, size_t *failed);

#endif
