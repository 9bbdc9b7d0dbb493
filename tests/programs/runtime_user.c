/* A module that calls the runtime that it is linked with: a plugin, or the part of a program. */
#include <stddef.h>

int cudaMalloc(void **pointer, size_t bytes);
size_t USER(void);
size_t USER(void) {
    void *pointer = NULL;
    int result = cudaMalloc(&pointer, 64);
    return result ? 1000 + (size_t)result : (size_t)pointer;
}
