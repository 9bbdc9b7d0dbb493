/* A block of cuMemAlloc that was written too far is freed by cuMemFreeAsync. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    CUstream stream;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? 251 : 250, stream);
    OK(cuMemFreeAsync(a, stream)); /* site: free */
    OK(cuStreamSynchronize(stream));
    return 0;
}
