/* Allocates, 100 times or as often as its argument says, says so, and waits to be killed. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

int main(int argc, char **argv) {
    void *pointer;
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        REQUIRE(cudaMalloc(&pointer, 1 << 20) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
    REQUIRE(cudaMalloc(&pointer, 1 << 20) == cudaSuccess);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
