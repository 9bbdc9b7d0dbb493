/* What null_driver.c was asked for. */
#ifndef BENCH_NULL_DRIVER_H
#define BENCH_NULL_DRIVER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct null_driver_counts {
    _Atomic uint64_t allocations, frees, waits;
    _Atomic uint64_t bytes; /* of all allocations, in pages as a device gives them out */
};
/* What a CUfunction points to here: how many arguments the function has, each of so many bytes. */
struct null_driver_function {
    size_t arguments, bytes;
};

/* Counted since the start, by all threads. */
const struct null_driver_counts *null_driver_counted(void);

#endif
