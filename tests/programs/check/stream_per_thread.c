/* The overflow happens in a per-thread default stream. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? 251 : 250, CU_STREAM_PER_THREAD);
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
