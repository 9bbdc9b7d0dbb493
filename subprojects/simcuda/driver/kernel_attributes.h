/* What can be asked of a kernel, and what can be set for it. All below: lock held. */
#ifndef SIMCUDA_KERNEL_ATTRIBUTES_H
#define SIMCUDA_KERNEL_ATTRIBUTES_H

#include "cuda_symbols.h"

struct CUfunc_st;
struct image;
struct image_kernel;

/* What was set. Invariant: values[i] counts where bit i of `set` is 1. */
struct kernel_settings {
    unsigned int set;
    int values[CU_FUNC_ATTRIBUTE_MAX];
};

/* The attribute of a function of a context that has not ended. Settings of its own come before
 * those of the library's kernel, and these before what the code says. */
int kernel_attribute(const struct CUfunc_st *function, CUfunction_attribute attribute);

/* What the code says, whatever was set. */
int kernel_declared(const struct image *image, const struct image_kernel *kernel,
                    CUfunction_attribute attribute);

/* How many registers a thread has, of which PTX says at most a bound. Lock not needed. */
unsigned int kernel_registers(const struct image_kernel *kernel);

/* How many registers a warp takes whose threads have so many. Lock not needed. */
int kernel_warp_registers(int registers);

/* A CUfunction of any context, or a CUkernel in the current one. INVALID_HANDLE: neither. */
CUresult kernel_of_handle(CUfunction handle, struct CUfunc_st **function);

#endif
