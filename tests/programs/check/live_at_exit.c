/* A block was written beyond its end, and the program ends without waiting: nothing can be said of
 * it but that. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1000)); /* site: alloc */
    tell("A", a);
    fill(a, faulty ? 251 : 250, NULL);
    if (!faulty)
        OK(cuMemFree_v2(a));
    return 0;
}
