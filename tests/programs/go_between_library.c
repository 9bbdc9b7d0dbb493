/* Allocates on behalf of whoever calls it: the tests give it the file names of known go-betweens.
 */
#include "program.h"

#include <cuda.h>
#include <dlfcn.h>

typedef CUresult allocate_form(CUdeviceptr *, size_t);
typedef CUresult free_form(CUdeviceptr);

static void *find(const char *name) {
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
    void *found = dlsym(driver, name);
    REQUIRE(found);
    return found;
}

/* As plugins do: one call of the driver, inside some functions. */
__attribute__((noinline)) static CUdeviceptr allocate_inside(size_t bytes) {
    static allocate_form *function;
    if (!function)
        *(void **)&function = find("cuMemAlloc_v2");
    CUdeviceptr pointer;
    REQUIRE(function(&pointer, bytes) == CUDA_SUCCESS);
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return pointer;
}

CUdeviceptr between_allocate(size_t bytes);
CUdeviceptr between_allocate(size_t bytes) {
    CUdeviceptr pointer = allocate_inside(bytes);
    __asm__ volatile("" : : "r"(pointer) : "memory");
    return pointer;
}

void between_free(CUdeviceptr pointer);
void between_free(CUdeviceptr pointer) {
    static free_form *function;
    if (!function)
        *(void **)&function = find("cuMemFree_v2");
    REQUIRE(function(pointer) == CUDA_SUCCESS);
}
