/* What is freed lies just before the block, where without the check nothing need be.
 *
 * Natively: the same. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    if (faulty)
        REQUIRE(cuMemFree_v2(a - 512) == CUDA_ERROR_INVALID_VALUE); /* site: before */
    OK(cuMemFree_v2(a));
    OK(cuMemAlloc_v2(&a, 1000));
    OK(cuMemFree_v2(a));
    return 0;
}
