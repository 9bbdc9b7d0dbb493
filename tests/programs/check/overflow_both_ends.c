/* One block is written before its start and beyond its end: it is reported once. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(faulty ? a - 4 : a, faulty ? 252 : 250, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
