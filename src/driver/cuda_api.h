/* The one place that includes CUDA's driver header.
 *
 * __CUDA_API_VERSION_INTERNAL keeps cuda.h from renaming functions by macro (cuMemAlloc to
 * cuMemAlloc_v2 and so on), so that in this project a name always denotes exactly the exported
 * symbol of that spelling, with CUDA 12 and CUDA 13 headers alike. */
#ifndef POOLCUDA_DRIVER_CUDA_API_H
#define POOLCUDA_DRIVER_CUDA_API_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdbool.h>

/* Whether an allocation that was answered so has found no memory. CUDA's errors are positive: a
 * negative answer comes from another tool that stands before the driver, as a quota does. */
static inline bool driver_refused(CUresult result) {
    return result == CUDA_ERROR_OUT_OF_MEMORY || (int)result < 0;
}

#endif
