/* A block is cleared after its free; found when the program next waits. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    if (!faulty)
        OK(cuMemsetD8_v2(a, 0, 100));
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        OK(cuMemsetD8_v2(a, 0, 100));
    OK(cuCtxSynchronize());
    return 0;
}
