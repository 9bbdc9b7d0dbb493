/* What nvcc's host code registers when a program or one of its libraries starts: images with their
 * kernels and variables, each known by an address of the host. Nothing of the driver is called
 * before something of an image is used. */
#ifndef SIMCUDA_RUNTIME_REGISTERED_H
#define SIMCUDA_RUNTIME_REGISTERED_H

#include "driver_calls.h"

/* What can be launched for `entry`: a registered kernel, by its host function or by the handle that
 * __cudaGetKernel gave for it, or else a kernel of the driver (cudaLibraryGetKernel). Loads the
 * image. INVALID_DEVICE_FUNCTION: it is none of these. */
cudaError_t registered_kernel(const void *entry, CUkernel *kernel);

/* The same in the current context. */
cudaError_t registered_function(const void *entry, CUfunction *function);

/* What the program calls a kernel that the driver names by its function, its kernel or both: the
 * host's function, or the driver's own handle where that is not registered. */
const void *registered_entry(CUfunction function, CUkernel kernel);

/* The memory of a variable in the current context. INVALID_SYMBOL: none is registered for that
 * address. */
cudaError_t registered_variable(const void *symbol, CUdeviceptr *pointer, size_t *bytes);

#endif
