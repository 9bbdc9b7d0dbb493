/* The driver functions behind the simulated runtime, found when it is first used. */
#ifndef POOLCUDA_SIM_RUNTIME_DRIVER_CALLS_H
#define POOLCUDA_SIM_RUNTIME_DRIVER_CALLS_H

#include "driver/cuda_api.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One pointer per function; two for those with a default stream: [0] legacy, [1] per thread. */
struct driver_calls {
#define CALL(name, version, symbol, parameters)                CUresult(*name) parameters;
#define STREAM_CALL(name, version, symbol, suffix, parameters) CUresult(*name[2]) parameters;
#include "driver_calls.def"
#undef CALL
#undef STREAM_CALL
};

extern struct driver_calls driver;

/* The simulated driver's hooks for its hazard detector, NULL on another driver. They tell it who
 * owns memory as the program sees it, which a pool below the runtime hides. */
extern void (*driver_owner_begin)(CUdeviceptr pointer, size_t bytes, uintptr_t site);
extern void (*driver_owner_end)(CUdeviceptr pointer, uintptr_t site);

/* Loads libcuda.so.1 and fills `driver`, once. */
cudaError_t driver_load(void);

#endif
