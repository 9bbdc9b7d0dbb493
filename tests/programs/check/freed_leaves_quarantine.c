/* A block is written after its free; found at the latest when other frees push it out of the
 * quarantine.
 *
 * Run with: POOLCUDA_CHECK_QUARANTINE=8M */
#include "check.h"

enum { COUNT = 6, BYTES = 1 << 20 };

int main(void) {
    CUdeviceptr a, others[COUNT], large;
    start();
    OK(cuMemAlloc_v2(&a, BYTES)); /* site: alloc */
    OK(cuMemAlloc_v2(&large, 8 * BYTES));
    for (int i = 0; i < COUNT; i++)
        OK(cuMemAlloc_v2(&others[i], BYTES));
    tell("A", a);
    if (!faulty)
        fill(a + 16, 4, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    for (int i = 0; i < COUNT; i++)
        OK(cuMemFree_v2(others[i]));
    if (faulty)
        fill(a + 16, 4, NULL);
    OK(cuMemFree_v2(large)); /* which looks at some of the others only */
    OK(cuCtxSynchronize());
    return 0;
}
