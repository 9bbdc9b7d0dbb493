/* A plugin whose constructor uses CUDA: the loader's lock is held meanwhile. */
#include "program.h"

#include <cuda_runtime_api.h>

__attribute__((constructor)) static void use_cuda(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *pointer;
        REQUIRE(cudaMalloc(&pointer, 4096) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
}
