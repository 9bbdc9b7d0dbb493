/* The one place that includes CUDA's driver header.
 *
 * __CUDA_API_VERSION_INTERNAL keeps cuda.h from renaming functions by macro (cuMemAlloc to
 * cuMemAlloc_v2 and so on), so that in this project a name always denotes exactly the exported
 * symbol of that spelling, with CUDA 12 and CUDA 13 headers alike. */
#ifndef POOLCUDA_DRIVER_CUDA_API_H
#define POOLCUDA_DRIVER_CUDA_API_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#endif
