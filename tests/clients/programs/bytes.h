/* What goes to the device and has to come back. */
#ifndef CLIENTS_BYTES_H
#define CLIENTS_BYTES_H

#include <stddef.h>

static unsigned sum_of(const unsigned char *bytes, size_t count) {
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

static void fill(unsigned char *bytes, size_t count, int seed) {
    for (size_t i = 0; i < count; i++)
        bytes[i] = (unsigned char)(i * 7 + (size_t)seed);
}

#endif
