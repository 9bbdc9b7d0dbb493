/* A kernel writes to memory after cudaFree; found at cudaDeviceSynchronize. */
#include "runtime.h"

int main(void) {
    void *a;
    start_runtime();
    CUDA_OK(cudaMalloc(&a, 100000)); /* site: alloc */
    tell("A", device_address(a));
    if (!faulty)
        fill(device_address(a) + 5000, 25, NULL);
    CUDA_OK(cudaFree(a)); /* site: free */
    if (faulty)
        fill(device_address(a) + 5000, 25, NULL);
    CUDA_OK(cudaDeviceSynchronize());
    return 0;
}
