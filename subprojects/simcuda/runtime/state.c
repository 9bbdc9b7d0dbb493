#include "state.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_DEVICES = 8 };

/* Invariant: `last_error_resets` is what `resets` was when `last_error` was recorded. */
static _Thread_local cudaError_t last_error;
static _Thread_local unsigned int last_error_resets;
static atomic_uint resets; /* of devices, in this process */
static _Thread_local int thread_device;
static _Thread_local bool device_chosen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primaries[MAX_DEVICES];

cudaError_t state_result(cudaError_t error) {
    /* Not-ready answers too: programs that poll clear it afterwards (PyTorch's stream query does).
     */
    if (error != cudaSuccess) {
        last_error = error;
        last_error_resets = resets;
    }
    return error;
}

cudaError_t state_primary(int device, CUcontext *context) {
    int count = 0;
    cudaError_t result = (cudaError_t)driver.cuDeviceGetCount(&count);
    if (result != cudaSuccess)
        return result;
    if (device < 0 || device >= count || device >= MAX_DEVICES)
        return cudaErrorInvalidDevice;
    pthread_mutex_lock(&lock);
    if (!primaries[device])
        result = (cudaError_t)driver.cuDevicePrimaryCtxRetain(&primaries[device], device);
    *context = primaries[device];
    pthread_mutex_unlock(&lock);
    return result;
}

static cudaError_t use_device(int device) {
    CUcontext context;
    cudaError_t result = state_primary(device, &context);
    return result != cudaSuccess ? result : (cudaError_t)driver.cuCtxSetCurrent(context);
}

cudaError_t state_enter(void) {
    CUcontext current = NULL;
    cudaError_t result = driver_load();
    if (result != cudaSuccess)
        return result;
    CUresult asked = driver.cuCtxGetCurrent(&current);
    if (asked != CUDA_SUCCESS)
        return (cudaError_t)asked;
    pthread_mutex_lock(&lock);
    bool current_serves = current && primaries[thread_device];
    pthread_mutex_unlock(&lock);
    return current_serves || (current && !device_chosen) ? cudaSuccess : use_device(thread_device);
}

int state_device(void) {
    return thread_device;
}

cudaError_t state_set_device(int device) {
    CUcontext context;
    cudaError_t result = driver_load();
    if (result == cudaSuccess)
        result = state_primary(device, &context);
    if (result != cudaSuccess)
        return result;
    thread_device = device;
    device_chosen = true;
    return (cudaError_t)driver.cuCtxSetCurrent(context);
}

void state_forget_primary(int device) {
    pthread_mutex_lock(&lock);
    primaries[device] = NULL;
    pthread_mutex_unlock(&lock);
    resets++;
    driver.cuCtxSetCurrent(NULL);
}

/* Errors that cost the context: every later call in it returns them, until the device is reset
 * [driver_types.h, at each: the process has to be ended for the use of CUDA to go on]. */
static bool is_sticky(cudaError_t error) {
    switch ((int)error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
        return true;
    default:
        return false;
    }
}

cudaError_t cudaPeekAtLastError(void) {
    if (is_sticky(last_error) && last_error_resets != resets)
        last_error = cudaSuccess;
    return last_error;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t error = cudaPeekAtLastError();

    if (!is_sticky(error))
        last_error = cudaSuccess;
    return error;
}
