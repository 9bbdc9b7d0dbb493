/* Launches of kernels, now and as graphs have them. */
#ifndef SIMCUDA_LAUNCH_H
#define SIMCUDA_LAUNCH_H

#include "context.h"
#include "op.h"

/* The operation that a node is: its function, a CUfunction or a CUkernel, in the context, with the
 * arguments as they are now. Lock held. */
CUresult launch_op(const CUDA_KERNEL_NODE_PARAMS_v2 *node, struct CUctx_st *context,
                   struct op **made);

/* A launch of a CUfunction or a CUkernel, with its arguments in either of the two forms. Lock not
 * held. */
CUresult launch_kernel(CUfunction handle, const CUlaunchConfig *config, void **parameters,
                       void **extra, enum null_stream null_stream);

#endif
