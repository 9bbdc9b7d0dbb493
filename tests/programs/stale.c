/* What fresh and what reused memory holds. */
#include "driver/cuda_api.h"
#include "program.h"

enum { BYTES = 5000 };

static unsigned first_byte(CUdeviceptr pointer) {
    unsigned char byte = 0;
    REQUIRE(cuMemcpyDtoH_v2(&byte, pointer, 1) == CUDA_SUCCESS);
    return byte;
}

int main(void) {
    CUcontext context;
    CUdeviceptr pointer;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc_v2(&pointer, BYTES) == CUDA_SUCCESS);
    unsigned fresh = first_byte(pointer);
    REQUIRE(cuMemsetD8_v2(pointer, 5, BYTES) == CUDA_SUCCESS);
    REQUIRE(cuMemFree_v2(pointer) == CUDA_SUCCESS);
    REQUIRE(cuMemAlloc_v2(&pointer, BYTES) == CUDA_SUCCESS);
    printf("fresh %u, reused %u\n", fresh, first_byte(pointer));
    return 0;
}
