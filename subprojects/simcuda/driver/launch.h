/* Kernels as graphs have them. */
#ifndef SIMCUDA_LAUNCH_H
#define SIMCUDA_LAUNCH_H

#include "context.h"
#include "op.h"

/* The operation that a node is: its function, a CUfunction or a CUkernel, in the context, with the
 * arguments as they are now. Lock held. */
CUresult launch_op(const CUDA_KERNEL_NODE_PARAMS_v2 *node, struct CUctx_st *context,
                   struct op **made);

#endif
