/* Devices, versions, error texts, driver entry points. */
#include "state.h"

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

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    ENTER();
    return DRIVER(driver.cuDeviceCanAccessPeer(can, device, peer));
}

cudaError_t cudaDriverGetVersion(int *version) {
    cudaError_t result = driver_load();
    return state_result(result != cudaSuccess ? result
                                              : (cudaError_t)driver.cuDriverGetVersion(version));
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    if (!version)
        return state_result(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status);
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
    ENTER();
    CUresult result = driver.cuGetProcAddress(symbol, function, (int)version, flags);
    if (status)
        *status = result == CUDA_SUCCESS ? cudaDriverEntryPointSuccess
                                         : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

/* Name and text of the errors that programs meet here. */
static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text},
    ERROR(cudaSuccess, "no error") ERROR(cudaErrorInvalidValue, "invalid argument")
        ERROR(cudaErrorMemoryAllocation, "out of memory") ERROR(
            cudaErrorInitializationError, "initialization error") ERROR(cudaErrorCudartUnloading,
                                                                        "driver shutting down")
            ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy") ERROR(
                cudaErrorInsufficientDriver,
                "CUDA driver version is insufficient for CUDA runtime version")
                ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected") ERROR(
                    cudaErrorInvalidDevice, "invalid device ordinal")
                    ERROR(cudaErrorDeviceUninitialized, "invalid device context") ERROR(
                        cudaErrorInvalidResourceHandle,
                        "invalid resource handle") ERROR(cudaErrorNotReady, "device not ready")
                        ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered")
                            ERROR(cudaErrorContextIsDestroyed, "context is destroyed")
                                ERROR(cudaErrorLaunchFailure, "unspecified launch failure") ERROR(
                                    cudaErrorStreamCaptureUnsupported,
                                    "operation not permitted when stream is capturing")
                                    ERROR(cudaErrorStreamCaptureInvalidated,
                                          "operation failed due to a previous error during capture")
                                        ERROR(cudaErrorStreamCaptureImplicit,
                                              "operation would make the legacy stream depend on a "
                                              "capturing blocking stream")
#undef ERROR
};

const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unrecognized error code";
}
