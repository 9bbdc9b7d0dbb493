/* Moving and setting bytes on behalf of the device. */
#ifndef SIMCUDA_BYTES_H
#define SIMCUDA_BYTES_H

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

DEVICE_CODE static inline void bytes_fill(unsigned char *bytes, size_t count, unsigned char value) {
    for (size_t i = 0; i < count; i++)
        ((volatile unsigned char *)bytes)[i] = value;
}

/* Whether all bytes have the value. */
DEVICE_CODE static inline int bytes_are(const unsigned char *bytes, size_t count,
                                        unsigned char value) {
    for (size_t i = 0; i < count; i++)
        if (((const volatile unsigned char *)bytes)[i] != value)
            return 0;
    return 1;
}
#else
#define DEVICE_CODE

static inline void bytes_move(void *to, const void *from, size_t size) {
    memmove(to, from, size);
}

static inline void bytes_fill(unsigned char *bytes, size_t count, unsigned char value) {
    memset(bytes, value, count);
}

/* Compares each byte with the one before it, and the first with the value: as fast as memcmp is. */
static inline int bytes_are(const unsigned char *bytes, size_t count, unsigned char value) {
    return count == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}
#endif

#endif
