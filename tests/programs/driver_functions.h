/* The driver functions of a program that looks them up by itself. */
#ifndef TESTS_DRIVER_FUNCTIONS_H
#define TESTS_DRIVER_FUNCTIONS_H

#include "driver/cuda_api.h"
#include "program.h"

struct driver_functions {
    CUresult (*init)(unsigned int flags);
    CUresult (*primary_retain)(CUcontext *context, CUdevice device);
    CUresult (*set_current)(CUcontext context);
    CUresult (*alloc)(CUdeviceptr *pointer, size_t bytes);
    CUresult (*free)(CUdeviceptr pointer);
};

/* Fills it by find(exported symbol). */
static inline struct driver_functions driver_functions_find(void *(*find)(const char *symbol)) {
    struct driver_functions functions;
    *(void **)&functions.init = find("cuInit");
    *(void **)&functions.primary_retain = find("cuDevicePrimaryCtxRetain");
    *(void **)&functions.set_current = find("cuCtxSetCurrent");
    *(void **)&functions.alloc = find("cuMemAlloc_v2");
    *(void **)&functions.free = find("cuMemFree_v2");
    REQUIRE(functions.init && functions.primary_retain && functions.set_current);
    REQUIRE(functions.alloc && functions.free);
    return functions;
}

/* Three call sites, ROUNDS times: 300 allocations natively. */
static inline void driver_functions_loop(const struct driver_functions *functions) {
    CUcontext context;
    REQUIRE(functions->init(0) == CUDA_SUCCESS);
    REQUIRE(functions->primary_retain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(functions->set_current(context) == CUDA_SUCCESS);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr a, b, c;
        REQUIRE(functions->alloc(&a, 1000) == CUDA_SUCCESS);
        REQUIRE(functions->alloc(&b, 100000) == CUDA_SUCCESS);
        REQUIRE(functions->alloc(&c, 10000000) == CUDA_SUCCESS);
        REQUIRE(functions->free(a) == CUDA_SUCCESS);
        REQUIRE(functions->free(b) == CUDA_SUCCESS);
        REQUIRE(functions->free(c) == CUDA_SUCCESS);
    }
    puts("done");
}

#endif
