/* A memset goes one byte beyond the end. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1001)); /* site: alloc */
    tell("A", a);
    OK(cuMemsetD8_v2(a, 5, faulty ? 1002 : 1001));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
