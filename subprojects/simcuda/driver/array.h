/* Arrays, simple ones: pitched device memory that only copies can reach. All below: lock held. */
#ifndef SIMCUDA_ARRAY_H
#define SIMCUDA_ARRAY_H

#include "context.h"

/* Where an array's elements are; false: it is no array. */
bool array_place(CUarray handle, CUdeviceptr *address, size_t *pitch, size_t *rows);

void array_context_ending(struct CUctx_st *context);

#endif
