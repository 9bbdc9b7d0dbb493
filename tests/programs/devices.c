/* Two devices and two contexts, allocations and frees across them. */
#include "program.h"

#include <cuda_runtime_api.h>

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *first, *second;
        REQUIRE(cudaSetDevice(0) == cudaSuccess);
        REQUIRE(cudaMalloc(&first, 5000) == cudaSuccess);
        REQUIRE(cudaSetDevice(1) == cudaSuccess);
        REQUIRE(cudaMalloc(&second, 5000) == cudaSuccess);
        REQUIRE(cudaMemset(second, i, 5000) == cudaSuccess);
        REQUIRE(cudaFree(first) == cudaSuccess); /* while the other device is current */
        REQUIRE(cudaSetDevice(0) == cudaSuccess);
        REQUIRE(cudaFree(second) == cudaSuccess);
    }
    struct cudaPointerAttributes attributes;
    void *pointer;
    REQUIRE(cudaSetDevice(1) == cudaSuccess);
    REQUIRE(cudaMalloc(&pointer, 5000) == cudaSuccess);
    REQUIRE(cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess);
    printf("device %d\n", attributes.device);
    return 0;
}
