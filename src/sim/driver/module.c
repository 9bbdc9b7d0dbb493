/* Modules, functions and kernel launches. */
#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "kernels.h"
#include "lock.h"
#include "settings.h"
#include "stream.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

enum { FUNCTION_NAME_MAX = 128 };

/* One .entry of a module's PTX. */
struct CUfunc_st {
    char name[FUNCTION_NAME_MAX];
    const struct builtin_kernel *kernel; /* NULL: not among those that the device knows */
    struct CUmod_st *module;
    struct CUfunc_st *next;
};

struct CUmod_st {
    struct CUctx_st *context;
    struct CUfunc_st *functions;
    struct CUmod_st *next;
};

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

static CUresult load(CUmodule *out, const void *image) {
    struct CUctx_st *context;
    struct CUmod_st *module;
    CUresult result;

    if (out == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(image,
               "\x7f"
               "ELF",
               4) == 0)
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
        if (module->context->state == CONTEXT_LIVE)
            result = context_wait(module->context); /* work still runs its code */
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

/* --- launches --- */

/* Copies the parameters out of either of the forms that cuLaunchKernel takes. */
static CUresult take_parameters(struct kernel_call *call, void **parameters, void **extra) {
    const struct builtin_kernel *kernel = call->kernel;
    const void *buffer = NULL;
    size_t size = 0;

    if (kernel->parameter_count == 0)
        return CUDA_SUCCESS;
    if (parameters != NULL) {
        if (extra != NULL)
            return CUDA_ERROR_INVALID_VALUE;
        for (unsigned int i = 0; i < kernel->parameter_count; i++)
            memcpy(call->parameters + kernel_parameter_offset(kernel, i), parameters[i],
                   kernel->parameter_sizes[i]);
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; extra != NULL && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *)extra[i + 1];
    }
    if (buffer == NULL || size > KERNEL_PARAMETER_BYTES ||
        size < kernel_parameter_offset(kernel, kernel->parameter_count - 1) +
                   kernel->parameter_sizes[kernel->parameter_count - 1])
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(call->parameters, buffer, size);
    return CUDA_SUCCESS;
}

static bool valid_shape(const unsigned int grid[3], const unsigned int block[3]) {
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || block[i] == 0 || block[i] > 1024)
            return false;
    return (uint64_t)block[0] * block[1] * block[2] <= 1024;
}

static CUresult launch(CUfunction function, const unsigned int grid[3], const unsigned int block[3],
                       CUstream handle, void **parameters, void **extra,
                       enum null_stream null_stream) {
    struct kernel_call call = {0};
    struct CUstream_st *stream;
    CUresult result;

    if (function == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!valid_shape(grid, block))
        return CUDA_ERROR_INVALID_VALUE;
    call.kernel = function->kernel;
    result = take_parameters(&call, parameters, extra);
    if (result != CUDA_SUCCESS)
        return result;
    cost_spend(settings()->launch_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && function->module->context != stream->context)
        result = CUDA_ERROR_INVALID_HANDLE; /* of a module in another context */
    if (result == CUDA_SUCCESS) {
        struct op *op = op_create(call.kernel->name, call.kernel->run);

        op->as.kernel = call;
        call.kernel->declare(op);
        result = stream_run(stream, op, false);
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuLaunchKernel, _ptsz,
             (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
              unsigned int block_x, unsigned int block_y, unsigned int block_z,
              unsigned int shared_bytes, CUstream stream, void **parameters, void **extra),
             ((void)shared_bytes, launch(function, (const unsigned int[]){grid_x, grid_y, grid_z},
                                         (const unsigned int[]){block_x, block_y, block_z}, stream,
                                         parameters, extra, null_stream)))

static CUresult launch_configured(const CUlaunchConfig *config, CUfunction function,
                                  void **parameters, void **extra, enum null_stream null_stream) {
    if (config == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return launch(function,
                  (const unsigned int[]){config->gridDimX, config->gridDimY, config->gridDimZ},
                  (const unsigned int[]){config->blockDimX, config->blockDimY, config->blockDimZ},
                  config->hStream, parameters, extra, null_stream);
}

EXPORT_FORMS(cuLaunchKernelEx, _ptsz,
             (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra),
             launch_configured(config, function, parameters, extra, null_stream))
