/* What programs with green contexts share. */
#ifndef TESTS_GREEN_H
#define TESTS_GREEN_H

#include "program.h"

#include "driver/cuda_api.h"

/* Of device 0. Returns the context that stands for it. */
static inline CUcontext make_green(CUgreenCtx *green) {
    CUdevResource resource;
    CUdevResourceDesc description;
    CUcontext context;
    REQUIRE(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
    REQUIRE(cuDevResourceGenerateDesc(&description, &resource, 1) == CUDA_SUCCESS);
    REQUIRE(cuGreenCtxCreate(green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
    REQUIRE(cuCtxFromGreenCtx(&context, *green) == CUDA_SUCCESS);
    return context;
}

#endif
