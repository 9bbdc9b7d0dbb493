/* A block that is never freed was written beyond its end: found when its primary context is
 * released. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? 251 : 250, NULL);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}
