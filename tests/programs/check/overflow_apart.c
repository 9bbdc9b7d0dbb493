/* Two writes beyond the end with untouched bytes between them are one error, from the first to the
 * last. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    OK(cuMemsetD8_v2(a + (faulty ? 1008 : 8), 5, 1));
    OK(cuMemsetD8_v2(a + (faulty ? 1100 : 100), 5, 1));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
