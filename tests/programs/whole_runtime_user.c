/* Allocates by a runtime that calls itself, and prints what it answered. */
#include <stddef.h>
#include <stdio.h>

int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);

int main(void) {
    void *pointer = NULL;
    size_t pitch = 0;
    int result = cudaMallocPitch(&pointer, &pitch, 100, 3);
    printf("error %d pitch %zu bytes %zu\n", result, pitch, (size_t)pointer);
    return 0;
}
