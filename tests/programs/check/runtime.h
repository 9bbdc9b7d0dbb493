/* What the programs of this folder share that allocate by the runtime API. */
#ifndef TESTS_PROGRAMS_CHECK_RUNTIME_H
#define TESTS_PROGRAMS_CHECK_RUNTIME_H

#include "check.h"

#include <cuda_runtime_api.h>

#define CUDA_OK(call) REQUIRE((call) == cudaSuccess)

static inline void start_runtime(void) {
    CUDA_OK(cudaFree(0)); /* makes the runtime create and set its context */
    load_kernels();
}

static inline CUdeviceptr device_address(void *pointer) {
    return (CUdeviceptr)(uintptr_t)pointer;
}

#endif
