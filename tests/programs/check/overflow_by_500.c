/* A kernel writes half as much again as there is room for. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? 375 : 250, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
