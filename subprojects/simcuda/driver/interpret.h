/* Kernels that run as their PTX says: what the driver and the interpreter (../ptx) have to do with
 * each other. */
#ifndef SIMCUDA_INTERPRET_H
#define SIMCUDA_INTERPRET_H

#include "kernels.h"
#include "module.h"
#include "simt.h"

struct image;

/* Stands for a kernel that runs as its PTX says. */
extern const struct builtin_kernel kernel_interpreted;

/* The kernel's name, as long as the process: what is reported of memory may name it when its module
 * is gone. Lock held. */
const char *interpret_name(const struct CUfunc_st *function);

/* Reads the image's texts into a program that runs. INVALID_PTX: interpret_failure() says why. Lock
 * not needed. */
CUresult interpret_image(struct image *image);

/* What was wrong with the text that this thread has read last. line == 0: nothing. Lock not needed.
 */
const struct simt_failure *interpret_failure(void);

/* Gives the variables of the module's program their addresses. Lock held. */
CUresult interpret_module(struct CUmod_st *module);

/* The memory that device code's malloc takes from, which the context gets when it is first asked
 * for. NULL: the device has no memory for it. Lock held. */
struct simt_heap *interpret_heap(struct CUctx_st *context);
void interpret_context_ending(struct CUctx_st *context); /* Lock held. */

#endif
