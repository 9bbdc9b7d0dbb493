/* A kernel writes two elements too many to a block of several MiB. */
#include "check.h"

enum { COUNT = 5 * 1024 * 1024 / 4 + 3 };

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, COUNT * 4)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? COUNT + 2 : COUNT, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
