/* A free waits for the work under way, so the stream has none when it is asked next. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <stdint.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { TIMES = 50, BYTES = 100000, SPIN_NS = 20 * 1000 * 1000 };

int main(void) {
    CUcontext context;
    CUmodule module;
    CUfunction spin;
    CUstream stream;
    uint64_t ns = SPIN_NS;
    void *arguments[] = {&ns};
    int resting = 0;
    CHECK(cuInit(0));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&spin, module, "spin_ns"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < TIMES; i++) {
        CUdeviceptr block, other;
        CHECK(cuMemAlloc_v2(&block, BYTES));
        CHECK(cuMemAlloc_v2(&other, BYTES));
        CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
        CHECK(cuMemsetD8Async(block, 1, BYTES, NULL));
        CHECK(cuMemFree_v2(block));
        resting += cuStreamQuery(CU_STREAM_LEGACY) == CUDA_SUCCESS;
        CHECK(cuMemAlloc_v2(&block, BYTES));
        CHECK(cuMemsetD8Async(block, 2, BYTES, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemFree_v2(block));
        CHECK(cuMemFree_v2(other));
    }
    printf("at rest after %d of %d frees\n", resting, TIMES);
    return 0;
}
