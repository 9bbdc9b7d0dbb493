#include "kernel_attributes.h"

#include "image.h"
#include "library.h"
#include "lock.h"
#include "module.h"
#include "settings.h"

#include <utlist.h>

enum { REGISTERS_UNKNOWN = 32 }; /* PTX does not say how many a compiler takes */
enum { REGISTERS_UNIT = 256 };   /* a warp gets whole ones */

static int device_limit(CUdevice_attribute attribute) {
    return device_attribute(attribute, 0); /* the devices are alike */
}

unsigned int kernel_registers(const struct image_kernel *kernel) {
    unsigned int most = kernel->needs.most_registers;

    if (kernel->needs.registers != 0)
        return kernel->needs.registers;
    return most != 0 && most < REGISTERS_UNKNOWN ? most : REGISTERS_UNKNOWN;
}

int kernel_warp_registers(int registers) {
    int all = registers * device_limit(CU_DEVICE_ATTRIBUTE_WARP_SIZE);

    return (all + REGISTERS_UNIT - 1) / REGISTERS_UNIT * REGISTERS_UNIT;
}

/* As many warps as the registers are enough for, at most what the code allows. */
static int threads_of(const struct image_kernel *kernel) {
    int most = device_limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    int by_registers = device_limit(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK) /
                       kernel_warp_registers((int)kernel_registers(kernel)) *
                       device_limit(CU_DEVICE_ATTRIBUTE_WARP_SIZE);

    if (kernel->needs.threads != 0 && kernel->needs.threads < (unsigned int)most)
        most = (int)kernel->needs.threads;
    return by_registers < most ? by_registers : most;
}

/* The module's: the code of a kernel is not searched for what it reads. */
static int constant_of(const struct image *image) {
    const struct image_variable *variable;
    size_t size = 0;

    LL_FOREACH(image->variables, variable)
    size += variable->constant ? variable->size : 0;
    return (int)size;
}

static int dynamic_shared_of(const struct image_kernel *kernel) {
    int most = device_limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);

    return kernel->needs.shared < (unsigned int)most ? most - (int)kernel->needs.shared : 0;
}

static int version_or_device(unsigned int version) {
    return (int)(version != 0 ? version : settings()->cc);
}

int kernel_declared(const struct image *image, const struct image_kernel *kernel,
                    CUfunction_attribute attribute) {
    sim_check_held();
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return threads_of(kernel);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        return (int)kernel->needs.shared;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        return constant_of(image);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        return (int)kernel->needs.local;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        return (int)kernel_registers(kernel);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
        return version_or_device(image->ptx_version);
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        return version_or_device(image->binary_version);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return dynamic_shared_of(kernel);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return -1; /* the driver's choice */
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
        return kernel->needs.cluster_at_launch || kernel->needs.cluster[0] != 0;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        return (int)kernel->needs.cluster[0];
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        return (int)kernel->needs.cluster[1];
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        return (int)kernel->needs.cluster[2];
    default:
        return 0;
    }
}

static bool is_set(const struct kernel_settings *settings, CUfunction_attribute attribute) {
    return settings != NULL && (settings->set & 1u << attribute) != 0;
}

int kernel_attribute(const struct CUfunc_st *function, CUfunction_attribute attribute) {
    sim_check_held();
    const struct kernel_settings *of_library;

    if (is_set(&function->settings, attribute))
        return function->settings.values[attribute];
    of_library = library_settings_of(function);
    return is_set(of_library, attribute)
               ? of_library->values[attribute]
               : kernel_declared(function->module->image, function->declared, attribute);
}

CUresult kernel_of_handle(CUfunction handle, struct CUfunc_st **function) {
    sim_check_held();
    struct CUctx_st *context;
    CUresult result;

    *function = module_find_function(handle);
    if (*function != NULL)
        return (*function)->module->context != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    result = context_current(&context);
    return result == CUDA_SUCCESS ? library_function(handle, context, function) : result;
}

/* --- entry points --- */

SIM_EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
                                       CUfunction handle) {
    struct CUfunc_st *function;
    CUresult result;

    ENTER(cuFuncGetAttribute);
    if (value == NULL || handle == NULL || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = kernel_of_handle(handle, &function);
    if (result == CUDA_SUCCESS)
        *value = kernel_attribute(function, attribute);
    sim_unlock();
    return result;
}

/* What cuFuncSetAttribute set for one context's function does not show here. */
static CUresult get_attribute(int *value, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice device) {
    const struct image *image;
    const struct image_kernel *kernel = library_kernel(handle, &image);
    const struct kernel_settings *settings;

    if (kernel == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    settings = library_kernel_settings(handle, device);
    *value = is_set(settings, attribute) ? settings->values[attribute]
                                         : kernel_declared(image, kernel, attribute);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute,
                                         CUkernel kernel, CUdevice device) {
    CUresult result;

    ENTER(cuKernelGetAttribute);
    if (value == NULL || attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = get_attribute(value, attribute, kernel, device);
    sim_unlock();
    return result;
}

/* Whether the attribute can be set at all, to that value, for that kernel. */
static CUresult check_setting(const struct image_kernel *kernel, CUfunction_attribute attribute,
                              int value) {
    bool valid;

    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        valid =
            value >= 0 && (int64_t)value + kernel->needs.shared <=
                              device_limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        valid = value >= -1 && value <= 100;
        break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        if (kernel->needs.cluster[0] != 0)
            return CUDA_ERROR_NOT_PERMITTED;
        valid = value >= 0;
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        valid = value == 0 || value == 1;
        break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
        valid = value >= CU_CLUSTER_SCHEDULING_POLICY_DEFAULT &&
                value <= CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING;
        break;
    default:
        valid = false; /* it can only be read */
    }
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set(struct kernel_settings *settings, const struct image_kernel *kernel,
                    CUfunction_attribute attribute, int value) {
    CUresult result = check_setting(kernel, attribute, value);

    if (result != CUDA_SUCCESS)
        return result;
    settings->set |= 1u << attribute;
    settings->values[attribute] = value;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute,
                                       int value) {
    struct CUfunc_st *function;
    CUresult result;

    ENTER(cuFuncSetAttribute);
    sim_lock();
    result = kernel_of_handle(handle, &function);
    if (result == CUDA_SUCCESS)
        result = set(&function->settings, function->declared, attribute, value);
    sim_unlock();
    return result;
}

/* INVALID_HANDLE or INVALID_DEVICE, unless it is a library's kernel and there is such a device. */
static CUresult check_kernel(CUkernel handle, CUdevice device, const struct image_kernel **kernel) {
    const struct image *image;

    *kernel = library_kernel(handle, &image);
    if (*kernel == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    return device_check(device);
}

SIM_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                                         CUdevice device) {
    const struct image_kernel *kernel;
    CUresult result;

    ENTER(cuKernelSetAttribute);
    sim_lock();
    result = check_kernel(handle, device, &kernel);
    if (result == CUDA_SUCCESS)
        result = set(library_kernel_settings(handle, device), kernel, attribute, value);
    sim_unlock();
    return result;
}

/* --- hints, which nothing here follows and nothing can ask for --- */

static CUresult check_function(CUfunction handle, bool valid) {
    struct CUfunc_st *function;
    CUresult result;

    sim_lock();
    result = kernel_of_handle(handle, &function);
    sim_unlock();
    if (result != CUDA_SUCCESS)
        return result;
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool is_cache(CUfunc_cache config) {
    return (unsigned int)config <= CU_FUNC_CACHE_PREFER_EQUAL;
}

SIM_EXPORT CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config) {
    ENTER(cuFuncSetCacheConfig);
    return check_function(function, is_cache(config));
}

SIM_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config) {
    ENTER(cuFuncSetSharedMemConfig);
    return check_function(function,
                          (unsigned int)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
}

SIM_EXPORT CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache config, CUdevice device) {
    const struct image_kernel *kernel;
    CUresult result;

    ENTER(cuKernelSetCacheConfig);
    sim_lock();
    result = check_kernel(handle, device, &kernel);
    sim_unlock();
    if (result != CUDA_SUCCESS)
        return result;
    return is_cache(config) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
