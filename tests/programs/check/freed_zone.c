/* A block is written beyond its end, after its free. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    if (!faulty)
        fill(a + 996, 1, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        fill(a + 1000, 1, NULL);
    OK(cuCtxSynchronize());
    return 0;
}
