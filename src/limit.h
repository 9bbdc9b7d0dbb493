/* A limit in bytes: the pool's own rule, a number of bytes, or a share of the device's memory. */
#ifndef POOLCUDA_LIMIT_H
#define POOLCUDA_LIMIT_H

#include <stdint.h>

struct limit {
    enum { LIMIT_AUTO, LIMIT_BYTES, LIMIT_PERCENT } kind;
    uint64_t bytes;
    double percent; /* of cuDeviceTotalMem, 0 to 100 */
};

/* The limit in bytes, of a device with `total`; `automatic` if it is left to the pool. */
static inline uint64_t limit_in_bytes(const struct limit *limit, uint64_t total,
                                      uint64_t automatic) {
    switch (limit->kind) {
    case LIMIT_BYTES:
        return limit->bytes;
    case LIMIT_PERCENT:
        return (uint64_t)((double)total * limit->percent / 100);
    case LIMIT_AUTO:
        break;
    }
    return automatic;
}

#endif
