/* A copy from the host comes after the free of where it goes to; found when another block is freed.
 */
#include "check.h"

int main(void) {
    const uint64_t word = 12345;
    CUdeviceptr a, b;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    OK(cuMemAlloc_v2(&b, 500));
    tell("A", a);
    if (!faulty)
        OK(cuMemcpyHtoD_v2(a + 992, &word, sizeof word));
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        OK(cuMemcpyHtoD_v2(a + 992, &word, sizeof word));
    OK(cuMemFree_v2(b));
    return 0;
}
