/* Contexts are lost by a kernel's fault and destroyed, one after the other, with memory of theirs
 * in use and freed. All of it is the device's again, though the program frees some of it once more
 * when the context is gone, which is refused. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { TURNS = 5, BLOCKS = 6, BYTES = 400000 };

static CUdeviceptr late; /* of the last context */

static void lose_context(void) {
    CUcontext context;
    CUmodule module;
    CUfunction fault;
    CUdeviceptr blocks[BLOCKS];
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fault, module, "fault"));
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemAlloc_v2(&blocks[i], BYTES));
    for (int i = 0; i < BLOCKS / 2; i++)
        CHECK(cuMemFree_v2(blocks[i]));
    CHECK(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    REQUIRE(cuCtxSynchronize() != CUDA_SUCCESS);
    REQUIRE(cuMemFree_v2(blocks[BLOCKS - 1]) != CUDA_SUCCESS);
    CHECK(cuCtxDestroy_v2(context));
    late = blocks[BLOCKS - 1];
}

int main(void) {
    CUcontext context;
    size_t left, total;
    CHECK(cuInit(0));
    for (int i = 0; i < TURNS; i++)
        lose_context();
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    printf("freed late: %d\n", (int)cuMemFree_v2(late));
    CHECK(cuMemGetInfo_v2(&left, &total));
    printf("%zu bytes are lost\n", total - left);
    return 0;
}
