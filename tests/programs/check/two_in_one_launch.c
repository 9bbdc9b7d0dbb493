/* Two freed blocks are written at once, in two kernels; both are reported although one check finds
 * both. */
#include "check.h"

int main(void) {
    CUdeviceptr a, b, c;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    OK(cuMemAlloc_v2(&b, 1000)); /* site: alloc */
    OK(cuMemAlloc_v2(&c, 1000));
    tell("A", a);
    tell("B", b);
    if (!faulty) {
        fill(a, 1, NULL);
        fill(b, 2, NULL);
    }
    OK(cuMemFree_v2(a)); /* site: free */
    OK(cuMemFree_v2(b)); /* site: free */
    if (faulty) {
        fill(a, 1, NULL);
        fill(b, 2, NULL);
    }
    OK(cuMemFree_v2(c));
    return 0;
}
