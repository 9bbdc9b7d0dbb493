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
    CUfunction fill, wait_flag;
    CUdevice device;
    uint32_t seed;
    int wrong[CONCURRENT_MAX];
};

/* Threads that allocate, fill, read and free, in streams of every kind. */
void concurrent_run(struct concurrent *concurrent, int threads);

/* One thread captures and runs graphs while two others allocate, work and free. */
void concurrent_capture(struct concurrent *concurrent, CUstreamCaptureMode mode);

/* One thread's stream is held by a kernel that ends once the other thread, which works in a context
 * of its own or in the same one, has done its part. */
void concurrent_held(struct concurrent *concurrent, bool own_context);

/* Forks while a thread allocates and frees under a lock that the process's fork handlers take. They
 * are registered before CUDA is used, as a library's constructor would. */
void concurrent_register_fork_handlers(void);
void concurrent_forks(struct concurrent *concurrent);

/* Virtual time of the simulated GPU (SIMCUDA_COST=3): what the calling thread has taken,
 * of it what its calls themselves did, 0 elsewhere; and work of the host's own. */
unsigned long long host_time(void);
unsigned long long host_time_of_calls(void);
void work_by_host(uint64_t ns);

/* Sets a flag that a kernel waits for. */
void store_flag(uint32_t *flag);

/* The simulated GPU's hazard detector learns who owns memory; a real device has none. */
void owner_begins(CUdeviceptr pointer, size_t size);
void owner_ends(CUdeviceptr pointer);
unsigned long long hazards(void);

/* What the simulated GPU has left of the current context's device, whatever a pool says: all that
 * there is where that cannot be asked. */
size_t device_available(void);

/* Whom managed memory is attached to: one of CUmemAttach_flags, 0 where that cannot be asked. */
unsigned association(CUdeviceptr pointer);

#endif
