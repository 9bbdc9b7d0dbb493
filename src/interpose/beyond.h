/* Hits of calls by way of go-betweens. */
#ifndef POOLCUDA_INTERPOSE_BEYOND_H
#define POOLCUDA_INTERPOSE_BEYOND_H

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the allocation has been served as hook_cuMemAlloc_v2 serves others: its site is known,
 * and the thread's cache has a block. Else nothing has happened. */
bool beyond_hit(CUdeviceptr *pointer, size_t bytes, uintptr_t return_address, uintptr_t frame);

#endif
