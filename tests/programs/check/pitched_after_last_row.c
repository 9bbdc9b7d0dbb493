/* One row too many of a pitched block is written. */
#include "check.h"

enum { WIDTH = 300, HEIGHT = 10 };

int main(void) {
    CUdeviceptr a;
    size_t pitch;
    start();
    OK(cuMemAllocPitch_v2(&a, &pitch, WIDTH, HEIGHT, 4)); /* site: alloc */
    tell("A", a);
    tell("END", a + pitch * HEIGHT);
    OK(cuMemsetD2D8_v2(a, pitch, 5, WIDTH, faulty ? HEIGHT + 1 : HEIGHT));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
