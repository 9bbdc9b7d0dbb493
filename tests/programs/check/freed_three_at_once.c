/* Three blocks are written after their frees, each elsewhere: three errors, each of which is
 * reported.
 */
#include "check.h"

int main(void) {
    CUdeviceptr blocks[3];
    start();
    for (int i = 0; i < 3; i++)
        OK(cuMemAlloc_v2(&blocks[i], 1000)); /* site: alloc */
    tell("A", blocks[0]);
    tell("B", blocks[1]);
    tell("C", blocks[2]);
    for (int i = 0; i < 3 && !faulty; i++)
        fill(blocks[i] + (CUdeviceptr)i * 100, 1, NULL);
    for (int i = 0; i < 3; i++)
        OK(cuMemFree_v2(blocks[i])); /* site: free */
    for (int i = 0; i < 3 && faulty; i++)
        fill(blocks[i] + (CUdeviceptr)i * 100, 1, NULL);
    OK(cuDevicePrimaryCtxReset_v2(0));
    return 0;
}
