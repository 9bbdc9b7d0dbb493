/* Resets the device 10,000 times, with three allocations in between, and prints by how many bytes
 * the heap has grown since the thousandth time. With the argument "contexts" it makes and destroys
 * a context each time instead. */
#include "program.h"

#include "driver/cuda_api.h"

#include <malloc.h>
#include <stdbool.h>
#include <string.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

/* From three places of the code. */
static void use(void) {
    CUdeviceptr first, second, third;
    CHECK(cuMemAlloc_v2(&first, 70000));
    CHECK(cuMemAlloc_v2(&second, 140000));
    CHECK(cuMemAlloc_v2(&third, 210000));
    CHECK(cuMemFree_v2(second));
}

int main(int argc, char **argv) {
    enum { RESETS = 10000, SETTLED = 1000 };
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    bool contexts = argc > 1 && strcmp(argv[1], "contexts") == 0;
    CUcontext context;
    size_t before = 0;
    CHECK(cuInit(0));
    if (!contexts)
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    for (int i = 0; i < RESETS; i++) {
        if (contexts)
            CHECK(create(&context, 0, 0));
        else
            CHECK(cuCtxSetCurrent(context));
        use();
        CHECK(contexts ? cuCtxDestroy_v2(context) : cuDevicePrimaryCtxReset_v2(0));
        if (i == SETTLED)
            before = mallinfo2().uordblks + mallinfo2().hblkhd;
    }
    printf("%zd\n", (ssize_t)(mallinfo2().uordblks + mallinfo2().hblkhd - before));
    return 0;
}
