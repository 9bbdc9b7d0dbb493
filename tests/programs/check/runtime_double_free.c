/* A block is given to cudaFree twice.
 *
 * Natively: the same. */
#include "runtime.h"

int main(void) {
    void *a;
    start_runtime();
    CUDA_OK(cudaMalloc(&a, 1000)); /* site: alloc */
    tell("A", device_address(a));
    CUDA_OK(cudaFree(a)); /* site: free */
    if (faulty)
        REQUIRE(cudaFree(a) == cudaErrorInvalidValue); /* site: again */
    return 0;
}
