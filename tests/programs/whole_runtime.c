/* A runtime that is its own caller: cudaMallocPitch allocates by the cudaMalloc that it exports,
 * which a preloaded library's goes before. What it hands out tells that it has served. */
#include <stddef.h>

int cudaMalloc(void **pointer, size_t bytes);
int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height);

int cudaMalloc(void **pointer, size_t bytes) {
    *pointer = (void *)bytes; // NOLINT(performance-no-int-to-ptr)
    return 0;
}

static volatile int last_error; /* set behind the call, which so is none that replaces this one */

int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    last_error = cudaMalloc(pointer, *pitch * height);
    return last_error;
}
