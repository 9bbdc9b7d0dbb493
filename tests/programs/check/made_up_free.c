/* What is freed was never an address; freeing 0 is none either, and no error.
 *
 * Natively: the same. */
#include "check.h"

int main(void) {
    start();
    OK(cuMemFree_v2(0));
    if (faulty)
        REQUIRE(cuMemFree_v2(0xdead00) == CUDA_ERROR_INVALID_VALUE); /* site: free */
    return 0;
}
