/* Device memory that the driver needs for what is no allocation of the program: contexts, streams,
 * events, modules, graphs, pools, and a context's first launch. A real driver takes it from the
 * same memory as cuMemAlloc, so that these calls can run out of it as well. Off unless
 * SIMCUDA_CALL_MEMORY or SIMCUDA_LAUNCH_MEMORY say how much. All below: lock held. */
#ifndef SIMCUDA_OBJECT_MEMORY_H
#define SIMCUDA_OBJECT_MEMORY_H

#include "context.h"

/* Takes one object's memory. OUT_OF_MEMORY: the device is full, and nothing was taken. */
CUresult object_memory_take(CUdevice device);
void object_memory_give(CUdevice device);

/* Takes what the first kernel that a context runs needs (stack, printf buffer, heap); later ones
 * need nothing. */
CUresult object_memory_launch(struct CUctx_st *context);
void object_memory_context_ending(struct CUctx_st *context);

#endif
