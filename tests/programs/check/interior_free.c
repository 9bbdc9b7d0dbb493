/* A pointer that was moved on is freed.
 *
 * Natively: the same. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    if (faulty)
        REQUIRE(cuMemFree_v2(a + 256) == CUDA_ERROR_INVALID_VALUE); /* site: inside */
    OK(cuMemFree_v2(a));
    return 0;
}
