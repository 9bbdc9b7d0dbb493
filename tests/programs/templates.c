/* Allocates through functions that have the symbols of templates, and past them. */
#include "program.h"

#include <cuda_runtime_api.h>

#define KEEP __attribute__((noinline))

/* thrust::detail::allocate<int>(unsigned long), as a compiler would emit it. */
KEEP void *thrust_allocate(size_t bytes) __asm__("_ZN6thrust6detail8allocateIiEEPvm");
/* at::detail::empty(unsigned long), which calls the former */
KEEP void *at_empty(size_t bytes) __asm__("_ZN2at6detail5emptyEm");
KEEP void *site_alpha(size_t bytes);
KEEP void *site_beta(size_t bytes);
KEEP void *site_gamma(size_t bytes);

static void *keep(void *pointer) {
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return pointer;
}

KEEP void *thrust_allocate(size_t bytes) {
    void *pointer;
    REQUIRE(cudaMalloc(&pointer, bytes) == cudaSuccess);
    return keep(pointer);
}

KEEP void *at_empty(size_t bytes) {
    char room[300];
    keep(room);
    return keep(thrust_allocate(bytes));
}

KEEP void *site_alpha(size_t bytes) {
    return keep(thrust_allocate(bytes));
}

KEEP void *site_beta(size_t bytes) {
    return keep(at_empty(bytes));
}

/* Its frame is as large as that of thrust_allocate: what lies where the other's caller does is its
 * own return address. */
KEEP void *site_gamma(size_t bytes) {
    void *pointer;
    REQUIRE(cudaMalloc(&pointer, bytes) == cudaSuccess);
    return keep(pointer);
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        void *alpha = site_alpha(20000), *beta = site_beta(20000), *gamma = site_gamma(20000);
        REQUIRE(cudaFree(alpha) == cudaSuccess && cudaFree(beta) == cudaSuccess);
        REQUIRE(cudaFree(gamma) == cudaSuccess);
    }
    puts("done");
    return 0;
}
