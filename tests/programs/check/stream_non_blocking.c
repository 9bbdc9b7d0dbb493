/* The overflow happens in a stream that the default stream does not wait for. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    CUstream stream;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? 251 : 250, stream);
    OK(cuMemFree_v2(a)); /* site: free */
    OK(cuStreamDestroy_v2(stream));
    return 0;
}
