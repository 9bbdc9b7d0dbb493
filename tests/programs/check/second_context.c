/* A block of a second context is written too far while blocks of the first one are used well. */
#include "check.h"

int main(void) {
    CUdeviceptr a, b;
    CUcontext first, second;
    start();
    OK(cuCtxGetCurrent(&first));
    OK(cuMemAlloc_v2(&a, 1000));
    fill(a, 250, NULL);
    OK(cuCtxCreate_v2(&second, 0, 0));
    load_kernels();
    OK(cuMemAlloc_v2(&b, 1000)); /* site: alloc */
    tell("B", b);
    fill(b, faulty ? 251 : 250, NULL);
    OK(cuMemFree_v2(b)); /* site: free */
    OK(cuCtxDestroy_v2(second));
    OK(cuCtxSetCurrent(first));
    OK(cuMemFree_v2(a));
    return 0;
}
