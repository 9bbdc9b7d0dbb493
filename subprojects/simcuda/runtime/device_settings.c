/* Settings of devices, and questions about them beyond attributes. */
#include "forms.h"

#include <limits.h>
#include <string.h>

cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

FORWARD(cudaDeviceSetLimit, (enum cudaLimit limit, size_t value),
        driver.cuCtxSetLimit((CUlimit)limit, value))
FORWARD(cudaDeviceGetLimit, (size_t * value, enum cudaLimit limit),
        driver.cuCtxGetLimit(value, (CUlimit)limit))
FORWARD(cudaDeviceGetCacheConfig, (enum cudaFuncCache * configuration),
        driver.cuCtxGetCacheConfig((CUfunc_cache *)configuration))
FORWARD(cudaDeviceSetCacheConfig, (enum cudaFuncCache configuration),
        driver.cuCtxSetCacheConfig((CUfunc_cache)configuration))
FORWARD(cudaDeviceGetByPCIBusId, (int *device, const char *id),
        driver.cuDeviceGetByPCIBusId(device, id))
FORWARD(cudaDeviceGetPCIBusId, (char *id, int length, int device),
        driver.cuDeviceGetPCIBusId(id, length, device))
FORWARD(cudaDeviceGetP2PAttribute,
        (int *value, enum cudaDeviceP2PAttr attribute, int device, int peer),
        driver.cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute, device, peer))
FORWARD(cudaHostGetFlags, (unsigned int *flags, void *host), driver.cuMemHostGetFlags(flags, host))
FORWARD(cudaCtxResetPersistingL2Cache, (void), driver.cuCtxResetPersistingL2Cache())
FORWARD(cudaProfilerStart, (void), driver.cuProfilerStart())
FORWARD(cudaProfilerStop, (void), driver.cuProfilerStop())

/* Flags of the thread's device, whether it is in use or not. */
cudaError_t cudaSetDeviceFlags(unsigned int flags) {
    cudaError_t loaded = driver_load();
    return loaded != cudaSuccess ? state_result(loaded)
                                 : DRIVER(driver.cuDevicePrimaryCtxSetFlags(state_device(), flags));
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags) {
    int active;
    cudaError_t loaded = driver_load();
    if (loaded != cudaSuccess || !flags)
        return state_result(loaded != cudaSuccess ? loaded : cudaErrorInvalidValue);
    return DRIVER(driver.cuDevicePrimaryCtxGetState(state_device(), flags, &active));
}

#if CUDART_VERSION >= 12000
cudaError_t cudaInitDevice(int device, unsigned int device_flags, unsigned int flags) {
    CUcontext context;
    cudaError_t loaded = driver_load();
    if (loaded != cudaSuccess)
        return state_result(loaded);
    if (flags & ~(unsigned int)cudaInitDeviceFlagsAreValid)
        return state_result(cudaErrorInvalidValue);
    CUresult result =
        flags ? driver.cuDevicePrimaryCtxSetFlags(device, device_flags) : CUDA_SUCCESS;
    return result != CUDA_SUCCESS ? DRIVER(result) : state_result(state_primary(device, &context));
}
#endif

/* The one that has most of what is asked for: no less memory, and the nearest compute capability.
 */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *wanted) {
    int count = 0, best_distance = INT_MAX;
    cudaError_t result = cudaGetDeviceCount(&count);

    if (result != cudaSuccess || !device || !wanted)
        return state_result(result != cudaSuccess ? result : cudaErrorInvalidValue);
    for (int each = 0; each < count && result == cudaSuccess; each++) {
        struct cudaDeviceProp properties;
        result = cudaGetDeviceProperties(&properties, each);
        int distance = (properties.major - wanted->major) * 10 + properties.minor - wanted->minor;
        if (properties.totalGlobalMem < wanted->totalGlobalMem || distance < 0)
            distance = INT_MAX - 1;
        if (result == cudaSuccess && distance < best_distance) {
            best_distance = distance;
            *device = each;
        }
    }
    return result;
}
