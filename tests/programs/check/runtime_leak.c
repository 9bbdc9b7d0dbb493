/* What a loop allocates is freed but for the last round.
 *
 * Run with: POOLCUDA_CHECK_LEAKS=1
 * Natively: the same. */
#include "runtime.h"

int main(void) {
    void *a;
    start_runtime();
    for (int i = 0; i < 5; i++) {
        CUDA_OK(cudaMalloc(&a, 1 << 20)); /* site: alloc */
        if (!faulty || i < 4)
            CUDA_OK(cudaFree(a));
    }
    tell("A", device_address(a));
    CUDA_OK(cudaDeviceReset());
    return 0;
}
