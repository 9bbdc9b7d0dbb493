/* A block is never freed. It is right all the same to reset the device.
 *
 * Run with: POOLCUDA_CHECK_LEAKS=1
 * Natively: the same. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1024)); /* site: alloc */
    tell("A", a);
    fill(a, 256, NULL);
    if (!faulty)
        OK(cuMemFree_v2(a));
    OK(cuDevicePrimaryCtxReset_v2(0));
    return 0;
}
