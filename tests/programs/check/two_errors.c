/* Two errors of different kinds in two blocks. */
#include "check.h"

int main(void) {
    CUdeviceptr a, b;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: first */
    OK(cuMemAlloc_v2(&b, 3000)); /* site: second */
    tell("A", a);
    tell("B", b);
    fill(a, faulty ? 251 : 250, NULL);
    if (!faulty)
        fill(b + 8, 1, NULL);
    OK(cuMemFree_v2(a)); /* site: free first */
    OK(cuMemFree_v2(b)); /* site: free second */
    if (faulty)
        fill(b + 8, 1, NULL);
    OK(cuCtxSynchronize());
    return 0;
}
