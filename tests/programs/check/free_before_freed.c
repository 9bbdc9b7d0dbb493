/* What is freed lies just before a block that is freed already.
 *
 * Natively: the same. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        REQUIRE(cuMemFree_v2(a - 512) == CUDA_ERROR_INVALID_VALUE); /* site: before */
    OK(cuMemAlloc_v2(&a, 1000));
    OK(cuMemFree_v2(a));
    return 0;
}
