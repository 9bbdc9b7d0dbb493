/* Blocks come and go in the same place; the last one is written too far. What stays idle is
 * bounded, so that the place is had again.
 *
 * Run with: POOLCUDA_CHECK_QUARANTINE=4K */
#include "check.h"

int main(void) {
    CUdeviceptr a, seen[100];
    int again = 0;
    start();
    for (int i = 0; i < 100; i++) {
        OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
        for (int j = 0; j < i; j++)
            again += seen[j] == a;
        seen[i] = a;
        fill(a, faulty && i == 99 ? 251 : 250, NULL);
        if (i == 99)
            tell("A", a);
        OK(cuMemFree_v2(a)); /* site: free */
    }
    REQUIRE(again != 0);
    return 0;
}
