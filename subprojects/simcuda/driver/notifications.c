/* Notifications of a device that has less memory to give than the process has taken: there are
 * none, so that nothing calls what is registered for them. */
#include "allocate.h"
#include "context.h"
#include "lock.h"

#include <stdlib.h>
#include <utlist.h>

#if CUDA_VERSION >= 12040 /* older headers lack the types */

struct CUasyncCallbackEntry_st {
    CUdevice device;
    struct CUasyncCallbackEntry_st *next;
};

static struct CUasyncCallbackEntry_st *registered;

SIM_EXPORT CUresult cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback function,
                                                      void *data, CUasyncCallbackHandle *handle) {
    struct CUasyncCallbackEntry_st *entry;

    ENTER(cuDeviceRegisterAsyncNotification);
    (void)data;
    if (function == NULL || handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    entry = allocate_zeroed(sizeof *entry);
    entry->device = device;
    LL_PREPEND(registered, entry);
    *handle = entry;
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceUnregisterAsyncNotification(CUdevice device,
                                                        CUasyncCallbackHandle handle) {
    struct CUasyncCallbackEntry_st *entry;

    ENTER(cuDeviceUnregisterAsyncNotification);
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    LL_FOREACH(registered, entry)
    if (entry == handle && entry->device == device)
        break;
    if (entry != NULL)
        LL_DELETE(registered, entry);
    sim_unlock();
    free(entry);
    return entry != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#endif
