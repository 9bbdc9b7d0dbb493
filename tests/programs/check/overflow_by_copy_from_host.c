/* A copy from the host brings the end of a string along, for which there is no room. */
#include "check.h"

int main(void) {
    static const char text[16] = "fifteen letters";
    CUdeviceptr a;
    start();
    OK(cuMemAlloc_v2(&a, 15)); /* site: alloc */
    tell("A", a);
    OK(cuMemcpyHtoD_v2(a, text, faulty ? 16 : 15));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
