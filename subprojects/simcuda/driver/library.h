/* Libraries: modules that belong to no context. All below: lock held. */
#ifndef SIMCUDA_LIBRARY_H
#define SIMCUDA_LIBRARY_H

#include "module.h"

/* The function of the CUkernel that `handle` is, loaded into `context` if it was not there yet.
 * INVALID_HANDLE: it is no CUkernel. */
CUresult library_function(CUfunction handle, struct CUctx_st *context, struct CUfunc_st **function);

/* The function that `handle`, a CUfunction or a CUkernel, denotes in `context`. */
CUresult library_resolve(CUfunction handle, struct CUctx_st *context, struct CUfunc_st **function);

/* What a kernel of a library is. NULL: of no library. */
const struct image_kernel *library_kernel(CUkernel handle, const struct image **image);

/* What was set for a kernel of any library on a device. */
struct kernel_settings *library_kernel_settings(CUkernel handle, CUdevice device);

/* As that for a function of a library's module. NULL: nobody has asked for its kernel. */
const struct kernel_settings *library_settings_of(const struct CUfunc_st *function);

#endif
