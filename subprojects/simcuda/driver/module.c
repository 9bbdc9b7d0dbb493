#include "module.h"

#include "allocate.h"
#include "kernels.h"
#include "lock.h"
#include "memory.h"
#include "object_memory.h"
#include "ptx.h"
#include "report.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static struct CUmod_st *modules;
static struct CUfunc_st *functions; /* of all modules, by handle */

static char *copy_name(const struct ptx_symbol *symbol) {
    return memcpy(allocate_zeroed(symbol->length + 1), symbol->name, symbol->length);
}

static void add_function(struct CUmod_st *module, const struct ptx_symbol *symbol) {
    struct CUfunc_st *function = allocate_zeroed(sizeof *function);

    function->name = copy_name(symbol);
    function->kernel = kernel_find(symbol->name, symbol->length);
    function->module = module;
    LL_PREPEND(module->functions, function);
    function->self = function;
    HASH_ADD(by_handle, functions, self, sizeof(void *), function);
}

static CUresult add_variable(struct CUmod_st *module, const struct ptx_symbol *symbol) {
    struct module_variable *variable;
    struct block *block;
    uint64_t unspent;
    CUresult result;

    if (symbol->managed)
        result = memory_allocate_visible(module->context, symbol->size, MEMORY_MANAGED, 0, &block);
    else
        result = memory_allocate(module->context, symbol->size, MEMORY_DEVICE, 0, &block, &unspent);
    if (result != CUDA_SUCCESS)
        return result;
    block->of_object = true;
    ptx_initialize(symbol, block->shadow);
    variable = allocate_zeroed(sizeof *variable);
    variable->name = copy_name(symbol);
    variable->address = block->address;
    variable->size = symbol->size;
    variable->managed = symbol->managed;
    LL_PREPEND(module->variables, variable);
    return CUDA_SUCCESS;
}

static CUresult fill(struct CUmod_st *module, const char *ptx) {
    struct ptx_symbol symbol;
    CUresult result = CUDA_SUCCESS;
    enum ptx_found found = PTX_END;

    while (result == CUDA_SUCCESS && (found = ptx_next(&ptx, &symbol)) == PTX_SYMBOL) {
        if (symbol.variable)
            result = add_variable(module, &symbol);
        else
            add_function(module, &symbol);
    }
    return found == PTX_INVALID ? CUDA_ERROR_INVALID_PTX : result;
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

    if (module->context != NULL)
        leave_context(module);
    LL_FOREACH_SAFE(module->functions, function, next_function) {
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in the table
        HASH_DELETE(by_handle, functions, function);
        free(function->name);
        free(function);
    }
    LL_FOREACH_SAFE(module->variables, variable, next_variable) {
        free(variable->name);
        free(variable);
    }
    free(module);
}

CUresult module_check_image(const void *image) {
    static const unsigned char elf[] = {0x7f, 'E', 'L', 'F'};
    static const unsigned char fat_binary[] = {0x50, 0xed, 0x55, 0xba};

    if (image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(image, elf, sizeof elf) == 0 || memcmp(image, fat_binary, sizeof fat_binary) == 0) {
        report_unserved("an image that is not PTX"); /* compiled for a real device */
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    return strstr(image, ".version") != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult module_load(struct CUctx_st *context, const char *ptx, struct CUmod_st **out) {
    sim_check_held();
    struct CUmod_st *module;
    CUresult result = object_memory_take(context->device);

    if (result != CUDA_SUCCESS)
        return result;
    module = allocate_zeroed(sizeof *module);
    module->context = context;
    result = fill(module, ptx);
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
    if (module->context != NULL)           /* it may have ended meanwhile */
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
    if (strcmp(function->name, name) == 0)
        break;
    if (function != NULL && function->kernel == NULL)
        report_unserved(name); /* the program brings a kernel that is not built in */
    if (function == NULL || function->kernel == NULL)
        return CUDA_ERROR_NOT_FOUND;
    *out = function;
    return CUDA_SUCCESS;
}

CUresult module_variable(const struct CUmod_st *module, const char *name,
                         const struct module_variable **out) {
    sim_check_held();
    LL_FOREACH(module->variables, *out)
    if (strcmp((*out)->name, name) == 0)
        return CUDA_SUCCESS;
    return CUDA_ERROR_NOT_FOUND;
}
