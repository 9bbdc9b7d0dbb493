/* One row too many of what cudaMallocPitch gave is written. */
#include "runtime.h"

enum { WIDTH = 700, HEIGHT = 20 };

int main(void) {
    void *a;
    size_t pitch;
    start_runtime();
    CUDA_OK(cudaMallocPitch(&a, &pitch, WIDTH, HEIGHT)); /* site: alloc */
    tell("A", device_address(a));
    tell("END", device_address(a) + pitch * HEIGHT);
    for (size_t row = 0; row < (faulty ? HEIGHT + 1 : HEIGHT); row++)
        fill(device_address(a) + row * pitch, WIDTH / 4, NULL);
    CUDA_OK(cudaFree(a)); /* site: free */
    return 0;
}
