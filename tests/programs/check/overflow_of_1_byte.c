/* The block has one byte only, of which a word is written. */
#include "check.h"

int main(void) {
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 1)); /* site: alloc */
    tell("A", a);
    OK(cuMemsetD8_v2(a, 5, faulty ? 4 : 1));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
