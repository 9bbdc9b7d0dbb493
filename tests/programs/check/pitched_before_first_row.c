/* The rows of a pitched block are counted from 0, not from -1. */
#include "check.h"

enum { WIDTH = 1000, HEIGHT = 4 };

int main(void) {
    CUdeviceptr a;
    size_t pitch;
    start();
    OK(cuMemAllocPitch_v2(&a, &pitch, WIDTH, HEIGHT, 4)); /* site: alloc */
    tell("A", a);
    tell("ROW", a - pitch);
    for (size_t row = 0; row < HEIGHT; row++)
        OK(cuMemsetD8_v2(a + row * pitch - (faulty ? pitch : 0), 5, WIDTH));
    OK(cuMemFree_v2(a)); /* site: free */
    return 0;
}
