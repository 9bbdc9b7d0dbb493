/* A copy from a larger block to a smaller one has the larger one's size. */
#include "check.h"

int main(void) {
    CUdeviceptr a, b;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    OK(cuMemAlloc_v2(&b, 1200));
    tell("A", a);
    fill(b, 300, NULL);
    OK(cuMemcpyDtoD_v2(a, b, faulty ? 1200 : 1000));
    OK(cuMemFree_v2(a)); /* site: free */
    OK(cuMemFree_v2(b));
    return 0;
}
