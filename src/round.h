/* Rounding of requests to what memory the driver hands out anyway. */
#ifndef POOLCUDA_ROUND_H
#define POOLCUDA_ROUND_H

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

#endif
