/* Allocates, says so, and waits to be killed. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

int main(void) {
    void *pointer;
    for (int i = 0; i < ROUNDS; i++) {
        REQUIRE(cudaMalloc(&pointer, 1 << 20) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
    REQUIRE(cudaMalloc(&pointer, 1 << 20) == cudaSuccess);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
