/* The driver's log of errors, of which this one keeps none: it is always empty. */
#include "context.h"
#include "lock.h"

#include <stdio.h>

#if CUDA_VERSION >= 12090

/* A callback that nothing calls. */
struct CUlogsCallbackEntry_st {
    bool registered;
};

enum { CALLBACKS_MAX = 64 };

static struct CUlogsCallbackEntry_st callbacks[CALLBACKS_MAX];

SIM_EXPORT CUresult cuLogsRegisterCallback(CUlogsCallback function, void *data,
                                           CUlogsCallbackHandle *handle) {
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    ENTER_UNINITIALIZED(cuLogsRegisterCallback);
    (void)data;
    if (function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    for (size_t i = 0; i < CALLBACKS_MAX && result != CUDA_SUCCESS; i++) {
        if (callbacks[i].registered)
            continue;
        callbacks[i].registered = true;
        if (handle != NULL)
            *handle = &callbacks[i];
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER_UNINITIALIZED(cuLogsUnregisterCallback);
    sim_lock();
    for (size_t i = 0; i < CALLBACKS_MAX; i++)
        if (&callbacks[i] == handle && callbacks[i].registered) {
            callbacks[i].registered = false;
            result = CUDA_SUCCESS;
        }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuLogsCurrent(CUlogIterator *iterator, unsigned int flags) {
    ENTER_UNINITIALIZED(cuLogsCurrent);
    if (iterator == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *iterator = 0;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuLogsDumpToFile(CUlogIterator *iterator, const char *path,
                                     unsigned int flags) {
    FILE *file;

    ENTER_UNINITIALIZED(cuLogsDumpToFile);
    (void)iterator;
    if (path == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    file = fopen(path, "ae");
    if (file == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    fclose(file);
    return CUDA_SUCCESS;
}

/* "The driver will always null terminate the buffer"; without messages *size is 0. */
SIM_EXPORT CUresult cuLogsDumpToMemory(CUlogIterator *iterator, char *buffer, size_t *size,
                                       unsigned int flags) {
    ENTER_UNINITIALIZED(cuLogsDumpToMemory);
    (void)iterator;
    if (buffer == NULL || size == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (*size != 0)
        buffer[0] = '\0';
    *size = 0;
    return CUDA_SUCCESS;
}

#endif
