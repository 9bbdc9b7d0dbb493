#include "module.h"

#include "allocate.h"
#include "image.h"
#include "interpret.h"
#include "kernels.h"
#include "lock.h"
#include "memory.h"
#include "object_memory.h"
#include "report.h"
#include "settings.h"
#include "shortcuts.h"
#include "stream.h"
#include "texture.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static struct CUmod_st *modules;
static struct CUfunc_st *functions; /* of all modules, by handle */

bool module_loads_lazily(void) {
    const char *mode = getenv("CUDA_MODULE_LOADING");

    return mode == NULL || strcmp(mode, "EAGER") != 0;
}

static void add_function(struct CUmod_st *module, const struct image_kernel *kernel) {
    struct CUfunc_st *function = allocate_zeroed(sizeof *function);
    const struct builtin_kernel *shortcut = NULL;

    function->declared = kernel;
    function->kernel = kernel_find(kernel->name, strlen(kernel->name));
    if (function->kernel == NULL && settings()->skips_kernels)
        function->kernel = &kernel_skipped;
    function->module = module;
    if (function->kernel == NULL && module->program != NULL) {
        function->runs = simt_find_kernel(module->program, kernel->name);
        function->kernel = function->runs != NULL ? &kernel_interpreted : NULL;
        shortcut = function->runs != NULL ? shortcut_find(module->image, kernel->name) : NULL;
    }
    if (shortcut != NULL) {
        function->runs = NULL;
        function->kernel = shortcut;
    }
    function->loaded = !module_loads_lazily();
    LL_PREPEND(module->functions, function);
    function->self = function;
    HASH_ADD(by_handle, functions, self, sizeof(void *), function);
}

static CUresult add_variable(struct CUmod_st *module, const struct image_variable *declared) {
    struct module_variable *variable;
    struct block *block;
    uint64_t unspent;
    CUresult result;

    if (declared->managed)
        result =
            memory_allocate_visible(module->context, declared->size, MEMORY_MANAGED, 0, &block);
    else
        result =
            memory_allocate(module->context, declared->size, MEMORY_DEVICE, 0, &block, &unspent);
    if (result != CUDA_SUCCESS)
        return result;
    block->of_object = true;
    if (declared->initial != NULL)
        memcpy(block->shadow, declared->initial, declared->size);
    variable = allocate_zeroed(sizeof *variable);
    variable->declared = declared;
    variable->address = block->address;
    LL_PREPEND(module->variables, variable);
    return CUDA_SUCCESS;
}

CUresult module_add_hidden(struct CUmod_st *module, size_t size, const unsigned char *initial,
                           const struct module_variable **out) {
    sim_check_held();
    struct image_variable declared = {.size = size};
    struct image_variable *hidden;
    CUresult result = add_variable(module, &declared);

    if (result != CUDA_SUCCESS)
        return result;
    hidden = allocate_zeroed(sizeof *hidden);
    hidden->size = size;
    module->variables->hidden = hidden;
    module->variables->declared = hidden;
    if (initial != NULL)
        memcpy(memory_at(module->variables->address)->shadow, initial, size);
    *out = module->variables;
    return CUDA_SUCCESS;
}

static CUresult fill(struct CUmod_st *module) {
    const struct image_variable *variable;
    const struct image_kernel *kernel;
    CUresult result = CUDA_SUCCESS;

    LL_FOREACH(module->image->variables, variable)
    if (result == CUDA_SUCCESS)
        result = add_variable(module, variable);
    if (result == CUDA_SUCCESS)
        result = interpret_module(module);
    LL_FOREACH(module->image->kernels, kernel)
    if (result == CUDA_SUCCESS)
        add_function(module, kernel);
    return result;
}

/* Gives back what the module has in its context, whose work has been waited for. */
static void leave_context(struct CUmod_st *module) {
    struct module_variable *variable;
    uint64_t unspent;

    LL_FOREACH(module->variables, variable)
    memory_release(memory_at(variable->address), &host_clock, 0, &unspent);
    module->context = NULL;
}

static void dispose(struct CUmod_st *module) {
    struct CUfunc_st *function, *next_function;
    struct module_variable *variable, *next_variable;

    texture_module_ending(module);
    if (module->context != NULL)
        leave_context(module);
    LL_FOREACH_SAFE(module->functions, function, next_function) {
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in the table
        HASH_DELETE(by_handle, functions, function);
        free(function->launch_state);
        free(function);
    }
    LL_FOREACH_SAFE(module->variables, variable, next_variable) {
        free(variable->hidden);
        free(variable);
    }
    simt_module_end(module->program);
    image_drop(module->image);
    free(module);
}

CUresult module_load(struct CUctx_st *context, struct image *image, struct CUlib_st *library,
                     struct CUmod_st **out) {
    sim_check_held();
    struct CUmod_st *module;
    CUresult result = object_memory_take(context->device);

    if (result != CUDA_SUCCESS)
        return result;
    module = allocate_zeroed(sizeof *module);
    module->context = context;
    module->image = image;
    module->library = library;
    image->references++;
    result = fill(module);
    if (result != CUDA_SUCCESS) {
        object_memory_give(context->device);
        dispose(module);
        return result;
    }
    LL_PREPEND(modules, module);
    *out = module;
    return CUDA_SUCCESS;
}

CUresult module_unload(struct CUmod_st *module) {
    sim_check_held();
    CUresult result = CUDA_SUCCESS;

    if (module->context != NULL)
        result =
            context_wait(module->context); /* [wait:module-unload] assumed: work runs its code */
    if (module_find(module) == NULL)       /* another thread has unloaded it meanwhile */
        return CUDA_ERROR_INVALID_HANDLE;
    if (module->context != NULL) /* it may have ended meanwhile */
        object_memory_give(module->context->device);
    LL_DELETE(modules, module);
    dispose(module);
    return result;
}

void module_context_ending(struct CUctx_st *context) {
    sim_check_held();
    struct CUmod_st *module;

    LL_FOREACH(modules, module) {
        if (module->context != context)
            continue;
        object_memory_give(context->device);
        leave_context(module);
    }
}

struct CUmod_st *module_find(CUmodule handle) {
    sim_check_held();
    struct CUmod_st *module;

    LL_FOREACH(modules, module)
    if (module == handle)
        return module;
    return NULL;
}

struct CUfunc_st *module_find_function(CUfunction handle) {
    sim_check_held();
    struct CUfunc_st *function;

    HASH_FIND(by_handle, functions, &handle, sizeof(void *), function);
    return function;
}

CUresult module_function(struct CUmod_st *module, const char *name, struct CUfunc_st **out) {
    sim_check_held();
    struct CUfunc_st *function;

    LL_FOREACH(module->functions, function)
    if (strcmp(function->declared->name, name) == 0)
        break;
    if (function != NULL && function->kernel == NULL)
        report_unserved(name); /* the program brings a kernel whose code cannot be run */
    if (function == NULL || function->kernel == NULL)
        return CUDA_ERROR_NOT_FOUND;
    function->loaded = true;
    *out = function;
    return CUDA_SUCCESS;
}

unsigned int module_functions(const struct CUmod_st *module, CUfunction *out, unsigned int room) {
    sim_check_held();
    struct CUfunc_st *function;
    unsigned int count = 0;

    LL_FOREACH(module->functions, function) {
        if (function->kernel == NULL)
            continue;
        if (count < room)
            out[count] = function;
        count++;
    }
    return count;
}

bool module_parameter(const struct CUfunc_st *function, size_t index, size_t *offset,
                      size_t *size) {
    sim_check_held();
    const struct builtin_kernel *kernel = function->kernel;

    if (kernel == &kernel_skipped || kernel == &kernel_interpreted) {
        if (index >= function->declared->parameter_count)
            return false;
        *offset = function->declared->parameters[index].offset;
        *size = function->declared->parameters[index].size;
        return true;
    }
    if (index >= kernel->parameter_count)
        return false;
    *offset = kernel_parameter_offset(kernel, (unsigned)index);
    *size = kernel->parameter_sizes[index];
    return true;
}

CUresult module_variable(const struct CUmod_st *module, const char *name,
                         const struct module_variable **out) {
    sim_check_held();
    LL_FOREACH(module->variables, *out)
    if ((*out)->hidden == NULL && strcmp((*out)->declared->name, name) == 0)
        return CUDA_SUCCESS;
    return CUDA_ERROR_NOT_FOUND;
}
