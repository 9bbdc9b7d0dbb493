/* cudaMemset is given one byte too many. */
#include "runtime.h"

int main(void) {
    void *a;
    start_runtime();
    CUDA_OK(cudaMalloc(&a, 1000)); /* site: alloc */
    tell("A", device_address(a));
    CUDA_OK(cudaMemset(a, 5, faulty ? 1001 : 1000));
    CUDA_OK(cudaFree(a)); /* site: free */
    return 0;
}
