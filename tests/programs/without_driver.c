/* Calls a driver function that only the pool's library provides: there is no driver. Argument: the
 * name. */
#include "program.h"

#include <dlfcn.h>

int main(void) {
    int (*alloc)(unsigned long long *, size_t);
    int (*runtime)(void **, size_t);
    unsigned long long pointer = 0;
    void *memory = NULL;
    *(void **)&alloc = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    *(void **)&runtime = dlsym(RTLD_DEFAULT, "cudaMalloc");
    REQUIRE(alloc && runtime);
    printf("driver %d runtime %d loaded %d\n", alloc(&pointer, 100), runtime(&memory, 100),
           dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL);
    return 0;
}
