/* With POOLCUDA_CHECK=sync the launch that wrote too far is named.
 *
 * Run with: POOLCUDA_CHECK=sync */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    uint64_t count = faulty ? 251 : 250;
    uint32_t value = 7;
    void *parameters[] = {&a, &count, &value};
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, 250, NULL);
    OK(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, 0, parameters, 0)); /* site: launch */
    fill(a, 250, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
