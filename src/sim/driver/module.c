/* Modules and what they contain. */
#include "module.h"

#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "kernels.h"
#include "lock.h"
#include "object_memory.h"
#include "stream.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

static struct CUmod_st *modules;

static bool is_name_character(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* The functions of PTX text: every `.entry NAME`. */
static CUresult parse(struct CUmod_st *module, const char *ptx) {
    static const char entry[] = ".entry";
    const char *at = ptx;

    while ((at = strstr(at, entry)) != NULL) {
        struct CUfunc_st *function;
        size_t length = 0;

        at += strlen(entry);
        while (isspace((unsigned char)*at))
            at++;
        while (is_name_character(at[length]))
            length++;
        if (length == 0 || length >= FUNCTION_NAME_MAX)
            return CUDA_ERROR_INVALID_PTX;
        function = allocate_zeroed(sizeof *function);
        memcpy(function->name, at, length);
        function->kernel = kernel_find(at, length);
        function->module = module;
        LL_PREPEND(module->functions, function);
    }
    return CUDA_SUCCESS;
}

static void dispose(struct CUmod_st *module) {
    struct CUfunc_st *function, *next;

    LL_FOREACH_SAFE(module->functions, function, next)
    free(function);
    free(module);
}

static void give_memory(struct CUmod_st *module) {
    object_memory_give(module->context->device);
    module->context = NULL;
}

void module_context_ending(struct CUctx_st *context) {
    struct CUmod_st *module;

    LL_FOREACH(modules, module)
    if (module->context == context)
        give_memory(module);
}

static CUresult load(CUmodule *out, const void *image) {
    struct CUctx_st *context;
    struct CUmod_st *module;
    CUresult result;

    if (out == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(image,
               "\x7f"
               "ELF",
               4) == 0 ||
        memcmp(image, "\x50\xed\x55\xba", 4) == 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU; /* compiled for a real device */
    if (strstr(image, ".version") == NULL)
        return CUDA_ERROR_INVALID_IMAGE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    if (result == CUDA_SUCCESS) {
        module = allocate_zeroed(sizeof *module);
        module->context = context;
        result = parse(module, image);
        if (result == CUDA_SUCCESS)
            result = object_memory_take(context->device);
        if (result == CUDA_SUCCESS) {
            LL_PREPEND(modules, module);
            *out = module;
        } else {
            dispose(module);
        }
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    ENTER(cuModuleLoadData);
    return load(module, image);
}

/* The options steer a compiler that the simulated device has no use for. */
SIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                                       CUjit_option *options, void **values) {
    ENTER(cuModuleLoadDataEx);
    if (count != 0 && (options == NULL || values == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    return load(module, image);
}

SIM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
    ENTER(cuModuleLoadFatBinary);
    return load(module, image);
}

SIM_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path) {
    CUresult result = CUDA_ERROR_FILE_NOT_FOUND;
    char *text = NULL;
    size_t capacity = 0;
    FILE *file;

    ENTER(cuModuleLoad);
    if (path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    file = fopen(path, "re");
    if (file == NULL)
        return CUDA_ERROR_FILE_NOT_FOUND;
    if (getdelim(&text, &capacity, '\0', file) > 0)
        result = load(module, text);
    free(text);
    fclose(file);
    return result;
}

static struct CUmod_st *find_module(CUmodule handle) {
    struct CUmod_st *module;

    LL_FOREACH(modules, module)
    if (module == handle)
        return module;
    return NULL;
}

SIM_EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name) {
    struct CUctx_st *context;
    struct CUfunc_st *function = NULL;
    CUresult result;

    ENTER(cuModuleGetFunction);
    if (out == NULL || name == NULL || *name == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS && find_module(handle) == NULL)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS) {
        LL_FOREACH(handle->functions, function)
        if (strcmp(function->name, name) == 0)
            break;
        if (function == NULL || function->kernel == NULL)
            result = CUDA_ERROR_NOT_FOUND;
        else
            *out = function;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuModuleUnload(CUmodule handle) {
    struct CUmod_st *module;
    CUresult result;

    ENTER(cuModuleUnload);
    sim_lock();
    module = find_module(handle);
    result = module == NULL ? CUDA_ERROR_INVALID_HANDLE : capture_check_unsafe();
    if (result == CUDA_SUCCESS) {
        if (module->context != NULL) {
            result = context_wait(module->context); /* work still runs its code */
            give_memory(module);
        }
        LL_DELETE(modules, module);
        dispose(module);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    ENTER(cuFuncGetModule);
    if (module == NULL || function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *module = function->module;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                       CUfunction function) {
    ENTER(cuFuncGetAttribute);
    if (value == NULL || function == NULL || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0;
    return CUDA_SUCCESS;
}
