/* Launches of kernels, now and as graphs have them. */
#ifndef SIMCUDA_LAUNCH_H
#define SIMCUDA_LAUNCH_H

#include "context.h"
#include "op.h"

/* The operation that a node is: `handle`, a CUfunction or a CUkernel, with the arguments as they
 * are now. Lock held. */
CUresult launch_op(CUfunction handle, struct CUctx_st *context,
                   const CUDA_KERNEL_NODE_PARAMS_v1 *node, struct op **made);

/* A launch as any of the entry points asks for it. */
struct launch_request {
    CUfunction function; /* or a CUkernel */
    unsigned int grid[3];
    unsigned int block[3];
    unsigned int shared_bytes;
    CUstream stream;
    bool programmatic;
    void **parameters;
    void **extra;
};

/* Lock not held. */
CUresult launch_kernel(const struct launch_request *request, enum null_stream null_stream);

#endif
