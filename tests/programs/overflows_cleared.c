/* Twenty blocks are written beyond, each as soon as it is there, in a stream that is idle. */
#include "driver/cuda_api.h"
#include "program.h"

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { TIMES = 20, BYTES = 100000 };

int main(void) {
    CUcontext context;
    CUstream stream;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < TIMES; i++) {
        CUdeviceptr block;
        CHECK(cuMemAlloc_v2(&block, BYTES));
        CHECK(cuMemsetD8Async(block + BYTES, 1, 8, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuMemFree_v2(block));
    }
    return 0;
}
