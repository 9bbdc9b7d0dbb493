/* Modules and the functions in them. Needs the lock held. */
#ifndef POOLCUDA_SIM_MODULE_H
#define POOLCUDA_SIM_MODULE_H

#include "context.h"

enum { FUNCTION_NAME_MAX = 128 };

struct builtin_kernel;

/* One .entry of a module's PTX. */
struct CUfunc_st {
    char name[FUNCTION_NAME_MAX];
    const struct builtin_kernel *kernel; /* NULL: not among those that the device knows */
    struct CUmod_st *module;
    struct CUfunc_st *next;
};

/* Invariant: context == NULL once that context has ended: nothing in the module can be used then.
 */
struct CUmod_st {
    struct CUctx_st *context;
    struct CUfunc_st *functions;
    struct CUmod_st *next;
};

void module_context_ending(struct CUctx_st *context);

#endif
