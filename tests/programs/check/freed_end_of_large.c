/* The last word of a freed block of several MiB is written; found when a stream is waited for. */
#include "check.h"

enum { BYTES = 6 << 20 };

int main(void) {
    CUdeviceptr a;
    CUstream stream;
    start();
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    OK(cuMemAlloc_v2(&a, BYTES)); /* site: alloc */
    tell("A", a);
    if (!faulty)
        fill(a + BYTES - 4, 1, stream);
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        fill(a + BYTES - 4, 1, stream);
    OK(cuStreamSynchronize(stream));
    return 0;
}
