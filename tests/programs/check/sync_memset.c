/* With POOLCUDA_CHECK=sync a memset of freed memory is named.
 *
 * Run with: POOLCUDA_CHECK=sync */
#include "check.h"

int main(void) {
    CUdeviceptr a, b;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    OK(cuMemAlloc_v2(&b, 1000));
    tell("A", a);
    fill(b, 250, NULL);
    if (!faulty)
        OK(cuMemsetD8_v2(a + 10, 5, 10));
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        OK(cuMemsetD8_v2(a + 10, 5, 10)); /* site: memset */
    fill(b, 250, NULL);
    OK(cuMemFree_v2(b));
    return 0;
}
