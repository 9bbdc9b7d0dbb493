/* A block that is never freed was written too far; found at cudaDeviceReset. */
#include "runtime.h"

int main(void) {
    void *a;
    start_runtime();
    CUDA_OK(cudaMalloc(&a, 1000)); /* site: alloc */
    tell("A", device_address(a));
    fill(device_address(a), faulty ? 251 : 250, NULL);
    CUDA_OK(cudaDeviceReset());
    return 0;
}
