/* What null_driver.c was asked for; a program finds it as the symbol null_driver_counts. */
#ifndef BENCH_NULL_DRIVER_H
#define BENCH_NULL_DRIVER_H

#include <stdatomic.h>
#include <stdint.h>

struct null_driver_counts {
    _Atomic uint64_t allocations, frees, waits;
    _Atomic uint64_t bytes; /* of all allocations, in pages as a device gives them out */
};
extern struct null_driver_counts null_driver_counts;

#endif
