/* A write after a free, of a program that waits for nothing any more but resets its device. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    if (!faulty)
        fill(a, 250, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        fill(a, 250, NULL);
    OK(cuDevicePrimaryCtxReset_v2(0));
    return 0;
}
