/* Kernels as graphs have them. */
#ifndef SIMCUDA_LAUNCH_H
#define SIMCUDA_LAUNCH_H

#include "context.h"
#include "op.h"

/* The operation that a node is: `handle`, a CUfunction or a CUkernel, with the arguments as they
 * are now. Lock held. */
CUresult launch_op(CUfunction handle, struct CUctx_st *context,
                   const CUDA_KERNEL_NODE_PARAMS_v1 *node, struct op **made);

#endif
