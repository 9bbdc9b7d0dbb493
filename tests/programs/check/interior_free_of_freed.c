/* A pointer into a freed block is freed.
 *
 * Natively: the same. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 2000)); /* site: alloc */
    tell("A", a);
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        REQUIRE(cuMemFree_v2(a + 1999) == CUDA_ERROR_INVALID_VALUE); /* site: inside */
    return 0;
}
