/* The parts of a random program in which several threads run at once, each with memory of its own.
 */
#ifndef TESTS_DIFFERENTIAL_CONCURRENT_H
#define TESTS_DIFFERENTIAL_CONCURRENT_H

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stdint.h>

enum { CONCURRENT_MAX = 4 };

/* wrong: for each thread, how many calls failed or words differed from what it wrote. */
struct concurrent {
    CUcontext context;
    CUfunction fill;
    uint32_t seed;
    int wrong[CONCURRENT_MAX];
};

/* Threads that allocate, fill, read and free, in streams of every kind. */
void concurrent_run(struct concurrent *concurrent, int threads);

/* One thread captures and runs graphs while two others allocate, work and free. */
void concurrent_capture(struct concurrent *concurrent, CUstreamCaptureMode mode);

/* The simulated GPU's hazard detector learns who owns memory; a real device has none. */
void owner_begins(CUdeviceptr pointer, size_t size);
void owner_ends(CUdeviceptr pointer);
unsigned long long hazards(void);

/* Whom managed memory is attached to: one of CUmemAttach_flags, 0 where that cannot be asked. */
unsigned association(CUdeviceptr pointer);

#endif
