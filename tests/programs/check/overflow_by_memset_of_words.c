/* A memset of words is given a number of bytes. */
#include "check.h"

enum { BYTES = 160 };

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, BYTES)); /* site: alloc */
    tell("A", a);
    OK(cuMemsetD32_v2(a, 5, faulty ? BYTES : BYTES / 4));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
