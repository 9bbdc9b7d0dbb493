/* A block is freed twice.
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
        REQUIRE(cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE); /* site: again */
    return 0;
}
