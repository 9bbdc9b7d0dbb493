/* With POOLCUDA_FREE=defer a free waits for nothing: what it looks for is found when the program
 * waits.
 *
 * Run with: POOLCUDA_FREE=defer */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? 251 : 250, NULL);
    OK(cuMemFree_v2(a)); /* site: free */
    OK(cuCtxSynchronize());
    return 0;
}
