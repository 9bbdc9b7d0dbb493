/* What a benchmark program allocates with, chosen when it is compiled:
 * ALLOCATE_DRIVER  the driver's functions, which the preloaded pool takes over;
 * ALLOCATE_RUNTIME the CUDA runtime that the program is linked with;
 * else             reference_malloc and reference_free, one of the allocators of this folder. */
#ifndef BENCH_ALLOCATOR_H
#define BENCH_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Both return 0, or an error. A free is given the size of the request, as RMM's and CUB's users do;
 * those that do not need it do not look at it. */
int reference_malloc(uintptr_t *pointer, size_t bytes);
int reference_free(uintptr_t pointer, size_t bytes);

#ifdef __cplusplus
}
#endif

#if defined(ALLOCATE_DRIVER)
#include "driver/cuda_api.h"
#define ALLOCATE(pointer, bytes) ((int)cuMemAlloc_v2((CUdeviceptr *)(pointer), bytes))
#define RELEASE(pointer, bytes)  ((void)(bytes), (int)cuMemFree_v2(pointer))
#elif defined(ALLOCATE_RUNTIME)
#include <cuda_runtime_api.h>
#define ALLOCATE(pointer, bytes) ((int)cudaMalloc((void **)(pointer), bytes))
#define RELEASE(pointer, bytes)  ((void)(bytes), (int)cudaFree((void *)(pointer)))
#else
#define ALLOCATE(pointer, bytes) reference_malloc(pointer, bytes)
#define RELEASE(pointer, bytes)  reference_free(pointer, bytes)
#endif

#endif
