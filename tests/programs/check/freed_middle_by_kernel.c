/* A kernel writes to a block after its free; found when the program next waits. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 4000)); /* site: alloc */
    tell("A", a);
    if (!faulty)
        fill(a + 400, 2, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        fill(a + 400, 2, NULL);
    OK(cuCtxSynchronize());
    return 0;
}
