/* A runtime that tells which one it is: NUMBER. With version scripts, like NVIDIA's. */
#include <stddef.h>

int cudaMalloc(void **pointer, size_t bytes);
int cudaMalloc(void **pointer, size_t bytes) {
    (void)bytes;
    *pointer = (void *)(size_t)NUMBER;
    return 0;
}
