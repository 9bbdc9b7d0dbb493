/* What simcuda's libcuda.so.1 exports beside CUDA's functions: what tests ask it or tell it.
 * Programs that run on a GPU, too, find these by dlsym: they are in no other driver. */
#ifndef SIMCUDA_H
#define SIMCUDA_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMCUDA_API __attribute__((visibility("default")))

/* What a runtime and test programs, never a pool, call to declare who owns memory as the
 * application sees it. `site` is any code address that tells the place apart. simcuda_owner_begin:
 * after an allocation has returned [address, address + size) to the program. simcuda_owner_end:
 * before the program's free of `address` is passed on. */
SIMCUDA_API void simcuda_owner_begin(CUdeviceptr address, size_t size, uintptr_t site);
SIMCUDA_API void simcuda_owner_end(CUdeviceptr address, uintptr_t site);

/* How many hazards have been reported so far. */
SIMCUDA_API uint64_t simcuda_hazards(void);

/* How many threads of the host wait, in some call, for work that is not done. */
SIMCUDA_API unsigned int simcuda_waits(void);

/* What cuMemGetInfo says is free, as no hook can change it. */
SIMCUDA_API size_t simcuda_available(void);

/* How many instructions the threads of kernels have executed so far that run as their PTX says. */
SIMCUDA_API uint64_t simcuda_instructions(void);

/* The costs of all calls and of all streams' work so far, in nanoseconds; 0 with SIMCUDA_COST=0. */
SIMCUDA_API uint64_t simcuda_modelled_ns(void);

/* The calling thread's virtual time, what its calls themselves have taken of it, and time that the
 * program says it spends. 0, 0 and nothing, unless SIMCUDA_COST=3. */
SIMCUDA_API uint64_t simcuda_host_ns(void);
SIMCUDA_API uint64_t simcuda_host_calls_ns(void);
SIMCUDA_API void simcuda_host_works(uint64_t ns);

/* Whom managed memory is attached to just now, which CUDA cannot be asked: one of
 * CUmemAttach_flags, 0 if the address is no managed memory. */
SIMCUDA_API unsigned int simcuda_association(CUdeviceptr address);

#ifdef __cplusplus
}
#endif

#endif
