/* A memset starts one byte before the block. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    OK(cuMemsetD8_v2(faulty ? a - 1 : a, 5, 100));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
