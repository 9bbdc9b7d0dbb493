/* The CUDA runtime, for our own calls of it. */
#ifndef POOLCUDA_INTERPOSE_RUNTIME_HOOKS_H
#define POOLCUDA_INTERPOSE_RUNTIME_HOOKS_H

#include <stddef.h>
#include <stdint.h>

/* cudaMalloc of the shared runtime that the code at `caller` is bound to, else of the one that all
 * modules see, on the caller's behalf. NULL if it fails or there is none. */
void *runtime_malloc(size_t bytes, uintptr_t caller);

#endif
