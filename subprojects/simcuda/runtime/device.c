/* Devices, versions, driver entry points. */
// NOLINTBEGIN(readability-redundant-declaration): older headers lack some of them
#include "forms.h"

cudaError_t cudaGetDeviceCount(int *count) {
    cudaError_t result = driver_load();
    return state_result(result != cudaSuccess ? result
                                              : (cudaError_t)driver.cuDeviceGetCount(count));
}

cudaError_t cudaGetDevice(int *device) {
    if (!device)
        return state_result(cudaErrorInvalidValue);
    *device = state_device();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return state_result(state_set_device(device));
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    ENTER();
    return DRIVER(driver.cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device));
}

cudaError_t cudaDeviceSynchronize(void) {
    ENTER();
    return DRIVER(driver.cuCtxSynchronize());
}

cudaError_t cudaDeviceReset(void) {
    ENTER();
    int device = state_device();
    cudaError_t result = DRIVER(driver.cuDevicePrimaryCtxReset(device));
    state_forget_primary(device);
    return result;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    ENTER();
    return DRIVER(driver.cuCtxGetStreamPriorityRange(least, greatest));
}

cudaError_t cudaDriverGetVersion(int *version) {
    cudaError_t result = driver_load();
    return state_result(result != cudaSuccess ? result
                                              : (cudaError_t)driver.cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version)
        return state_result(cudaErrorInvalidValue);
    *version = RUNTIME_VERSION;
    return cudaSuccess;
}

/* The four-argument lookup serves every generation: it says NOT_FOUND where the newer one has a
 * status, and an unknown version is what it finds under no name at all. */
static cudaError_t entry_point(const char *symbol, void **function, unsigned int version,
                               unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status, bool per_thread) {
    ENTER();
    if (!symbol || !function)
        return state_result(cudaErrorInvalidValue);
    if (flags == cudaEnableDefault && per_thread)
        flags = cudaEnablePerThreadDefaultStream;
    *function = NULL;
    CUresult result = driver.cuGetProcAddress(symbol, function, (int)version, flags);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_FOUND)
        return DRIVER(result);
    if (status)
        *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

FORMS(cudaGetDriverEntryPoint, _ptsz,
      (const char *symbol, void **function, unsigned long long flags,
       enum cudaDriverEntryPointQueryResult *status),
      entry_point(symbol, function, RUNTIME_VERSION, flags, status, per_thread))
FORMS(cudaGetDriverEntryPointByVersion, _ptsz,
      (const char *symbol, void **function, unsigned int version, unsigned long long flags,
       enum cudaDriverEntryPointQueryResult *status),
      entry_point(symbol, function, version, flags, status, per_thread))
// NOLINTEND(readability-redundant-declaration)
