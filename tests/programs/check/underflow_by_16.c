/* A kernel writes the four elements before the block. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 4096)); /* site: alloc */
    tell("A", a);
    fill(faulty ? a - 16 : a, 4, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
