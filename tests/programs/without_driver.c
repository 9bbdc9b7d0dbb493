/* Calls functions that only the pool's library provides, by weak references: there is no driver. */
#include "program.h"

#include <dlfcn.h>

#pragma weak cuMemAlloc_v2
#pragma weak cudaMalloc
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);
int cudaMalloc(void **pointer, size_t bytes);

int main(void) {
    unsigned long long pointer = 0;
    void *memory = NULL;
    REQUIRE(cuMemAlloc_v2 && cudaMalloc);
    printf("driver %d runtime %d loaded %d\n", cuMemAlloc_v2(&pointer, 100),
           cudaMalloc(&memory, 100), dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
    return 0;
}
