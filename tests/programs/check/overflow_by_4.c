/* A kernel writes one element too many. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? 251 : 250, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
