/* Libraries: modules that belong to no context. All below: lock held. */
#ifndef SIMCUDA_LIBRARY_H
#define SIMCUDA_LIBRARY_H

#include "module.h"

/* The function of the CUkernel that `handle` is, loaded into `context` if it was not there yet.
 * INVALID_HANDLE: it is no CUkernel. */
CUresult library_function(CUfunction handle, struct CUctx_st *context, struct CUfunc_st **function);

bool library_has_kernel(CUkernel handle); /* of any library */

#endif
