/* Allocates from functions whose names a test knows: the report must point into them. */
#include "program.h"

#include <cuda_runtime_api.h>

#define KEEP __attribute__((noinline))

KEEP void *site_alpha(size_t bytes);
KEEP void *site_beta(size_t bytes);
KEEP void *wrapper(size_t bytes);
KEEP void *caller_one(size_t bytes);
KEEP void *caller_two(size_t bytes);

#define ALLOCATE(pointer, bytes)                                                                   \
    do {                                                                                           \
        REQUIRE(cudaMalloc(&(pointer), bytes) == cudaSuccess);                                     \
        __asm__ volatile("" : : "r"(pointer) : "memory");                                          \
    } while (0)

KEEP void *site_alpha(size_t bytes) {
    void *pointer;
    ALLOCATE(pointer, bytes);
    return pointer;
}

KEEP void *site_beta(size_t bytes) {
    void *pointer;
    ALLOCATE(pointer, bytes);
    return pointer;
}

KEEP void *wrapper(size_t bytes) {
    void *pointer;
    ALLOCATE(pointer, bytes);
    return pointer;
}

KEEP void *caller_one(size_t bytes) {
    void *pointer = wrapper(bytes);
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return pointer;
}

KEEP void *caller_two(size_t bytes) {
    void *pointer = wrapper(bytes);
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return pointer;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    for (int i = 0; i < rounds; i++) {
        void *alpha = site_alpha(1000), *beta = site_beta(3000);
        void *one = caller_one(20000), *two = caller_two(20000);
        REQUIRE(cudaFree(alpha) == cudaSuccess && cudaFree(beta) == cudaSuccess);
        REQUIRE(cudaFree(one) == cudaSuccess && cudaFree(two) == cudaSuccess);
    }
    puts("done");
    return 0;
}
