/* Sizes in bytes: rounded to what memory the driver hands out anyway, and limited. */
#ifndef POOLCUDA_BASE_SIZES_H
#define POOLCUDA_BASE_SIZES_H

#include <stddef.h>
#include <stdint.h>

enum { ROUND_SMALL = 512, ROUND_PAGE = 2 << 20 };

/* The next multiple of `unit`, a power of two; 0 if there is none. */
static inline size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) & ~(unit - 1); /* what overflows is 0 */
}

/* Physical memory comes in 2 MiB pages and smaller blocks are aligned to 512 bytes: rounding to
 * these costs nothing and lets requests that differ a little share blocks. */
static inline size_t round_physical(size_t bytes) {
    if (bytes >= ROUND_PAGE)
        return round_up(bytes, ROUND_PAGE);
    return round_up(bytes, ROUND_SMALL);
}

/* A limit in bytes: the pool's own rule, a number of bytes, or a share of the device's memory. */
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
