/* With POOLCUDA_SITE_DEPTH=2 the callers of the functions that allocate and free are reported too.
 *
 * Run with: POOLCUDA_SITE_DEPTH=2 */
#include "check.h"

__attribute__((noinline)) static CUdeviceptr obtain(size_t bytes) {
    CUdeviceptr a;
    OK(cuMemAlloc_v2(&a, bytes)); /* site: alloc */
    return a;
}

__attribute__((noinline)) static void dispose(CUdeviceptr a) {
    OK(cuMemFree_v2(a)); /* site: free */
}

int main(void) {
    start();
    CUdeviceptr a = obtain(1000); /* site: obtain */
    tell("A", a);
    if (!faulty)
        fill(a, 250, NULL);
    dispose(a); /* site: dispose */
    if (faulty)
        fill(a, 250, NULL);
    OK(cuCtxSynchronize());
    return 0;
}
