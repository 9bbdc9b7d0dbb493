/* Blocks of two sites are never freed, and the program just ends.
 *
 * Run with: POOLCUDA_CHECK_LEAKS=1
 * Natively: the same. */
#include "check.h"

int main(void) {
    CUdeviceptr a, b, c;
    start();
    OK(cuMemAlloc_v2(&a, 1000));    /* site: first */
    OK(cuMemAlloc_v2(&b, 2000));    /* site: second */
    OK(cuMemAlloc_v2(&c, 3000000)); /* site: third */
    tell("A", a);
    tell("C", c);
    OK(cuCtxSynchronize());
    OK(cuMemFree_v2(b));
    for (int i = 0; i < 2 && !faulty; i++)
        OK(cuMemFree_v2(i == 0 ? a : c));
    return 0;
}
