/* Asks so often how much memory is free: small blocks, large ones and questions are counted by the
 * arguments. A third of the blocks is idle. */
#include "driver/cuda_api.h"
#include "program.h"

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { SMALL = 4 << 10, LARGE = 2 << 20, MOST = 100000 };

static CUdeviceptr blocks[MOST];

static void hold(int count, size_t bytes) {
    REQUIRE(count <= MOST);
    for (int i = 0; i < count; i++)
        CHECK(cuMemAlloc_v2(&blocks[i], bytes));
    for (int i = 0; i < count; i += 3)
        CHECK(cuMemFree_v2(blocks[i]));
}

int main(int argc, char **argv) {
    CUcontext context;
    size_t available, total;
    REQUIRE(argc == 4);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    hold(atoi(argv[1]), SMALL);
    hold(atoi(argv[2]), LARGE);
    for (int i = 0; i < atoi(argv[3]); i++)
        CHECK(cuMemGetInfo_v2(&available, &total));
    return 0;
}
