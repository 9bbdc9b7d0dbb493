/* A free that waits for nothing is made while one stream is busy, and then work in an idle stream
 * writes to what is freed.
 *
 * Run with: POOLCUDA_FREE=defer */
#include "check.h"

static void spin(CUstream stream) {
    CUmodule module;
    CUfunction kernel;
    uint64_t ns = 20000000;
    OK(cuModuleLoadData(&module, sample_kernels_ptx));
    OK(cuModuleGetFunction(&kernel, module, "spin_ns"));
    OK(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&ns}, NULL));
}

int main(void) {
    CUdeviceptr a;
    CUstream busy, idle;
    start();
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&a, 1001)); /* site: alloc */
    tell("A", a);
    spin(busy);
    if (!faulty)
        fill(a + 400, 2, idle);
    OK(cuMemFree_v2(a)); /* site: free */
    if (faulty)
        fill(a + 400, 2, idle);
    OK(cuCtxSynchronize());
    return 0;
}
