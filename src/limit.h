/* A limit in bytes: the pool's own rule, a number of bytes, or a share of the device's memory. */
#ifndef POOLCUDA_LIMIT_H
#define POOLCUDA_LIMIT_H

#include <stdint.h>

struct limit {
    enum { LIMIT_AUTO, LIMIT_BYTES, LIMIT_PERCENT } kind;
    uint64_t bytes;
    double percent; /* of cuDeviceTotalMem, 0 to 100 */
};

#endif
