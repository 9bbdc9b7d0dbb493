/* Moving and setting bytes on behalf of the device. */
#ifndef POOLCUDA_SIM_BYTES_H
#define POOLCUDA_SIM_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Kernels and copies of a racy program race in simulated memory. That is the hazard detector's to
 * report, not ThreadSanitizer's, which would otherwise blame the simulator. */
#ifdef __SANITIZE_THREAD__
#define DEVICE_CODE __attribute__((no_sanitize("thread")))

DEVICE_CODE static inline void bytes_move(void *to, const void *from, size_t size) {
    volatile unsigned char *out = to;
    const volatile unsigned char *in = from;

    if ((uintptr_t)out <= (uintptr_t)in)
        for (size_t i = 0; i < size; i++)
            out[i] = in[i];
    else
        for (size_t i = size; i-- != 0;)
            out[i] = in[i];
}
#else
#define DEVICE_CODE

static inline void bytes_move(void *to, const void *from, size_t size) {
    memmove(to, from, size);
}
#endif

#endif
