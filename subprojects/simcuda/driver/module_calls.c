/* The entry points of modules and functions. */
#include "capture.h"
#include "image.h"
#include "library.h"
#include "lock.h"
#include "module.h"
#include "settings.h"

/* Takes the caller's reference of the image. */
static CUresult load_image(CUmodule *out, struct image *image) {
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    if (result == CUDA_SUCCESS)
        result = module_load(context, image, out);
    image_drop(image);
    sim_unlock();
    return result;
}

static CUresult load(CUmodule *out, const void *code) {
    struct image *image;
    CUresult result = out == NULL ? CUDA_ERROR_INVALID_VALUE : image_read(code, &image);

    return result == CUDA_SUCCESS ? load_image(out, image) : result;
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
        result = handle->of_library ? CUDA_ERROR_NOT_PERMITTED : capture_check_unsafe();
    if (result == CUDA_SUCCESS)
        result = module_unload(handle);
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

/* All kernels have these values: their code is not looked at. */
static CUresult attribute_value(CUfunction_attribute attribute, int *value) {
    if (attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = (int)settings()->cc;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = 48 * 1024;
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = -1; /* the driver's choice */
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                       CUfunction function) {
    ENTER(cuFuncGetAttribute);
    return value == NULL || function == NULL ? CUDA_ERROR_INVALID_VALUE
                                             : attribute_value(attribute, value);
}

SIM_EXPORT CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute,
                                         CUkernel kernel, CUdevice device) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    bool known;

    ENTER(cuKernelGetAttribute);
    sim_lock();
    known = library_has_kernel(kernel);
    sim_unlock();
    if (value != NULL && attribute >= 0)
        result = known ? attribute_value(attribute, value) : CUDA_ERROR_INVALID_HANDLE;
    return result == CUDA_SUCCESS && (device < 0 || (uint64_t)device >= settings()->devices)
               ? CUDA_ERROR_INVALID_DEVICE
               : result;
}
