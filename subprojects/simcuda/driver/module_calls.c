/* The entry points of modules and functions. */
#include "capture.h"
#include "image.h"
#include "jit.h"
#include "library.h"
#include "lock.h"
#include "module.h"

/* Takes the caller's reference of the image. */
static CUresult load_image(CUmodule *out, struct image *image) {
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    if (result == CUDA_SUCCESS)
        result = module_load(context, image, NULL, out);
    image_drop(image);
    sim_unlock();
    return result;
}

static CUresult load(CUmodule *out, const void *code, struct jit *jit) {
    struct image *image;
    CUresult result = out == NULL ? CUDA_ERROR_INVALID_VALUE : jit_load(jit, code, &image);

    return result == CUDA_SUCCESS ? load_image(out, image) : result;
}

SIM_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    ENTER(cuModuleLoadData);
    return load(module, image, &(struct jit){.target = 0});
}

SIM_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count,
                                       CUjit_option *options, void **values) {
    struct jit jit;
    CUresult result;

    ENTER(cuModuleLoadDataEx);
    result = jit_read(&jit, JIT_LOAD, count, options, values);
    return result == CUDA_SUCCESS ? load(module, image, &jit) : result;
}

SIM_EXPORT CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) {
    ENTER(cuModuleLoadFatBinary);
    return load(module, image, &(struct jit){.target = 0});
}

SIM_EXPORT CUresult cuModuleLoad(CUmodule *module, const char *path) {
    struct image *image;
    CUresult result;

    ENTER(cuModuleLoad);
    if (module == NULL || path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = image_read_file(path, &image);
    return result == CUDA_SUCCESS ? load_image(module, image) : result;
}

/* What `handle` denotes, if the current context may use it. */
static CUresult begin(CUmodule handle) {
    struct CUctx_st *context;
    CUresult result = context_current(&context);

    if (result == CUDA_SUCCESS && (module_find(handle) == NULL || handle->context == NULL))
        result = CUDA_ERROR_INVALID_HANDLE;
    return result;
}

SIM_EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule handle, const char *name) {
    CUresult result;

    ENTER(cuModuleGetFunction);
    if (out == NULL || name == NULL || *name == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = begin(handle);
    if (result == CUDA_SUCCESS)
        result = module_function(handle, name, out);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *size, CUmodule handle,
                                         const char *name) {
    const struct module_variable *variable;
    CUresult result;

    ENTER(cuModuleGetGlobal_v2);
    if ((pointer == NULL && size == NULL) || name == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = begin(handle);
    if (result == CUDA_SUCCESS)
        result = module_variable(handle, name, &variable);
    if (result == CUDA_SUCCESS && pointer != NULL)
        *pointer = variable->address;
    if (result == CUDA_SUCCESS && size != NULL)
        *size = variable->declared->size;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuModuleUnload(CUmodule handle) {
    CUresult result;

    ENTER(cuModuleUnload);
    sim_lock();
    if (module_find(handle) == NULL)
        result = CUDA_ERROR_INVALID_HANDLE;
    else
        result = handle->library != NULL ? CUDA_ERROR_NOT_PERMITTED : capture_check_unsafe();
    if (result == CUDA_SUCCESS)
        result = module_unload(handle);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuFuncGetModule(CUmodule *module, CUfunction handle) {
    const struct CUfunc_st *function;

    ENTER(cuFuncGetModule);
    if (module == NULL || handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    function = module_find_function(handle);
    if (function != NULL)
        *module = function->module;
    sim_unlock();
    return function != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuFuncGetName(const char **name, CUfunction function) {
    ENTER(cuFuncGetName);
    if (name == NULL || function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    const struct CUfunc_st *found = module_find_function(function);
    if (found != NULL)
        *name = found->declared->name;
    sim_unlock();
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult parameter_info(const struct CUfunc_st *function, size_t index, size_t *offset,
                               size_t *size) {
    size_t unused;

    return offset != NULL &&
                   module_parameter(function, index, offset, size != NULL ? size : &unused)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset,
                                       size_t *size) {
    const struct CUfunc_st *function;
    CUresult result;

    ENTER(cuFuncGetParamInfo);
    sim_lock();
    function = module_find_function(handle);
    result = function == NULL ? CUDA_ERROR_INVALID_HANDLE
                              : parameter_info(function, index, offset, size);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t *offset,
                                         size_t *size) {
    struct CUfunc_st *function;
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuKernelGetParamInfo);
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = library_function((CUfunction)handle, context, &function);
    if (result == CUDA_SUCCESS)
        result = parameter_info(function, index, offset, size);
    sim_unlock();
    return result;
}

static size_t parameter_count(const struct CUfunc_st *function) {
    size_t count = 0, offset, size;

    while (module_parameter(function, count, &offset, &size))
        count++;
    return count;
}

SIM_EXPORT CUresult cuFuncGetParamCount(CUfunction handle, size_t *count) {
    const struct CUfunc_st *function;

    ENTER(cuFuncGetParamCount);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    function = module_find_function(handle);
    if (function != NULL)
        *count = parameter_count(function);
    sim_unlock();
    return function != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuKernelGetParamCount(CUkernel handle, size_t *count) {
    struct CUfunc_st *function;
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuKernelGetParamCount);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = library_function((CUfunction)handle, context, &function);
    if (result == CUDA_SUCCESS)
        *count = parameter_count(function);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    ENTER(cuModuleGetLoadingMode);
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    *mode = module_loads_lazily() ? CU_MODULE_LAZY_LOADING : CU_MODULE_EAGER_LOADING;
    sim_unlock();
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12040

SIM_EXPORT CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule handle) {
    CUresult result;

    ENTER(cuModuleGetFunctionCount);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = begin(handle);
    if (result == CUDA_SUCCESS)
        *count = module_functions(handle, NULL, 0);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int room,
                                               CUmodule handle) {
    CUresult result;

    ENTER(cuModuleEnumerateFunctions);
    if (functions == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = begin(handle);
    if (result == CUDA_SUCCESS)
        module_functions(handle, functions, room);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle) {
    const struct CUfunc_st *function;

    ENTER(cuFuncIsLoaded);
    if (state == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    function = module_find_function(handle);
    if (function != NULL)
        *state = function->loaded ? CU_FUNCTION_LOADING_STATE_LOADED
                                  : CU_FUNCTION_LOADING_STATE_UNLOADED;
    sim_unlock();
    return function != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SIM_EXPORT CUresult cuFuncLoad(CUfunction handle) {
    struct CUfunc_st *function;

    ENTER(cuFuncLoad);
    sim_lock();
    function = module_find_function(handle);
    if (function != NULL)
        function->loaded = true;
    sim_unlock();
    return function != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

#endif
