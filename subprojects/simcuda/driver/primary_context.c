/* The entry points of primary contexts. */
#include "context.h"
#include "lock.h"

SIM_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    CUresult result;

    ENTER(cuDevicePrimaryCtxRetain);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    result = context_retain_primary(device, out);
    sim_unlock();
    return result;
}

static CUresult primary_release(CUdevice device) {
    CUresult result;

    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    result = context_release_primary(device);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    ENTER(cuDevicePrimaryCtxRelease);
    return primary_release(device);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    ENTER(cuDevicePrimaryCtxRelease_v2);
    return primary_release(device);
}

static CUresult primary_reset(CUdevice device) {
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    context_reset_primary(device);
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    ENTER(cuDevicePrimaryCtxReset);
    return primary_reset(device);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    ENTER(cuDevicePrimaryCtxReset_v2);
    return primary_reset(device);
}

static CUresult primary_set_flags(CUdevice device, unsigned int flags) {
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    context_primary(device)->flags = flags;
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
    ENTER(cuDevicePrimaryCtxSetFlags);
    return primary_set_flags(device, flags);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
    ENTER(cuDevicePrimaryCtxSetFlags_v2);
    return primary_set_flags(device, flags);
}

SIM_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    ENTER(cuDevicePrimaryCtxGetState);
    if (flags == NULL || active == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    *flags = context_primary(device)->flags;
    *active = context_primary(device)->state == CONTEXT_LIVE;
    sim_unlock();
    return CUDA_SUCCESS;
}
