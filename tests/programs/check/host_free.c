/* Memory of malloc is given to cuMemFree.
 *
 * Natively: the same. */
#include "check.h"

int main(void) {
    void *host = malloc(100);
    CUdeviceptr a = (CUdeviceptr)(uintptr_t)host;
    start();
    tell("A", a);
    if (faulty)
        REQUIRE(cuMemFree_v2(a) == CUDA_ERROR_INVALID_VALUE); /* site: free */
    free(host);
    return 0;
}
