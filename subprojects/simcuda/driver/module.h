/* Modules: what an image became in one context. All below: lock held. */
#ifndef SIMCUDA_MODULE_H
#define SIMCUDA_MODULE_H

#include "context.h"
#include "kernel_attributes.h"

#include <uthash.h>

struct builtin_kernel;
struct image;
struct image_kernel;
struct image_variable;
struct launch_state;
struct CUlib_st;
struct simt_heap;
struct simt_kernel;
struct simt_module;

/* One kernel of a module's image. */
struct CUfunc_st {
    const struct image_kernel *declared; /* the image's */
    const struct builtin_kernel *kernel; /* NULL: not among those that the device knows */
    struct simt_kernel *runs;            /* of kernel_interpreted: the module's program's */
    struct CUmod_st *module;
    struct kernel_settings settings;
    struct launch_state *launch_state; /* launch_by_state.c; owned; NULL: nothing was set */
    bool loaded; /* its code is in the context: it was asked for by name or used */
    struct CUfunc_st *next;
    struct CUfunc_st *self; /* the key of by_handle */
    UT_hash_handle by_handle;
};

/* One variable of a module's image. Its memory is a block of its own that no free takes. */
struct module_variable {
    const struct image_variable *declared; /* the image's, or `hidden` */
    struct image_variable *hidden;         /* owned; NULL: it has a name */
    CUdeviceptr address;
    struct module_variable *next;
};

/* Invariant: context == NULL once that context has ended: the module then has no memory and nothing
 * in it can be used. */
struct CUmod_st {
    struct CUctx_st *context;
    struct image *image;      /* a reference of its own */
    struct CUlib_st *library; /* only its unloading unloads the module; NULL: it is of none */
    struct CUfunc_st *functions;
    struct module_variable *variables;
    struct simt_module *program; /* owned; NULL: its kernels do not run as their text says */
    struct CUmod_st *next;
};

/* `library`: what the module is to belong to, or NULL. */
CUresult module_load(struct CUctx_st *context, struct image *image, struct CUlib_st *library,
                     struct CUmod_st **module);
CUresult module_unload(struct CUmod_st *module); /* waits for its context's work */
void module_context_ending(struct CUctx_st *context);

struct CUmod_st *module_find(CUmodule handle);             /* NULL: no module */
struct CUfunc_st *module_find_function(CUfunction handle); /* NULL: of no module */

/* Whether functions are loaded when they are first used: unless CUDA_MODULE_LOADING is EAGER. */
bool module_loads_lazily(void);

/* The first `room` of the module's functions that can be launched; returns how many there are. */
unsigned int module_functions(const struct CUmod_st *module, CUfunction *functions,
                              unsigned int room);

/* Bytes. False: the kernel has no such parameter. */
bool module_parameter(const struct CUfunc_st *function, size_t index, size_t *offset, size_t *size);

/* NOT_FOUND if the module has nothing of that name. */
CUresult module_function(struct CUmod_st *module, const char *name, struct CUfunc_st **function);
/* Adds one that has no name, but for `initial`, which may be NULL, zero. */
CUresult module_add_hidden(struct CUmod_st *module, size_t size, const unsigned char *initial,
                           const struct module_variable **variable);
CUresult module_variable(const struct CUmod_st *module, const char *name,
                         const struct module_variable **variable);

#endif
