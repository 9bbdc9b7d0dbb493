/* The driver functions behind the simulated runtime, found when it is first used. */
#ifndef SIMCUDA_RUNTIME_DRIVER_CALLS_H
#define SIMCUDA_RUNTIME_DRIVER_CALLS_H

/* keeps cuda.h from renaming functions by macro (cuMemAlloc to cuMemAlloc_v2 and so on) */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The generation of runtime that this build behaves as: how it finds the driver. 5:
 * cuGetProcAddress_v2 with a probe (CUDA 12 and 13); 4: cuGetProcAddress with four arguments (11.3
 * to 11.8); 0: dlsym for every function (up to 11.2). */
#ifndef RESOLVE_BY
#define RESOLVE_BY 5
#endif

#if RESOLVE_BY == 0
#define RUNTIME_VERSION 11000
#elif RESOLVE_BY == 4
#define RUNTIME_VERSION 11080
#else
#define RUNTIME_VERSION CUDART_VERSION
#endif

/* One pointer per function; two for those with a default stream: [0] legacy, [1] per thread. */
// NOLINTBEGIN(bugprone-macro-parentheses): declarators cannot be put in parentheses
struct driver_calls {
#define CALL(name, version, symbol, parameters)                CUresult(*name) parameters;
#define STREAM_CALL(name, version, symbol, suffix, parameters) CUresult(*name[2]) parameters;
#include "driver_calls.def"
#undef CALL
#undef STREAM_CALL
};
// NOLINTEND(bugprone-macro-parentheses)

extern struct driver_calls driver;

/* The simulated driver's hooks for its hazard detector, NULL on another driver. They say who owns
 * memory as the program sees it, which a pool below the runtime hides. */
extern void (*driver_owner_begin)(CUdeviceptr pointer, size_t bytes, uintptr_t site);
extern void (*driver_owner_end)(CUdeviceptr pointer, uintptr_t site);

/* Loads libcuda.so.1 and fills `driver`, once. */
cudaError_t driver_load(void);

#endif
