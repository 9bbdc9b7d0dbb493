/* Callbacks at the beginning and the end of dumps: no dump is written, so that nothing calls them.
 */
#include "allocate.h"
#include "entry.h"
#include "lock.h"

#include <stdlib.h>
#include <utlist.h>

enum moment { AT_START, AT_END };

struct CUcoredumpCallbackEntry_st {
    enum moment moment;
    struct CUcoredumpCallbackEntry_st *next;
};

static struct CUcoredumpCallbackEntry_st *registered;

static CUresult add(enum moment moment, CUcoredumpStatusCallback function,
                    CUcoredumpCallbackHandle *handle) {
    struct CUcoredumpCallbackEntry_st *entry;

    if (function == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    entry = allocate_zeroed(sizeof *entry);
    entry->moment = moment;
    sim_lock();
    LL_PREPEND(registered, entry);
    sim_unlock();
    if (handle != NULL)
        *handle = entry;
    return CUDA_SUCCESS;
}

static CUresult take_away(enum moment moment, CUcoredumpCallbackHandle handle) {
    struct CUcoredumpCallbackEntry_st *entry;

    sim_lock();
    LL_FOREACH(registered, entry)
    if (entry == handle && entry->moment == moment)
        break;
    if (entry != NULL)
        LL_DELETE(registered, entry);
    sim_unlock();
    free(entry);
    return entry != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuCoredumpRegisterStartCallback(CUcoredumpStatusCallback function, void *data,
                                                    CUcoredumpCallbackHandle *handle) {
    ENTER(cuCoredumpRegisterStartCallback);
    (void)data;
    return add(AT_START, function, handle);
}

SIM_EXPORT CUresult cuCoredumpRegisterCompleteCallback(CUcoredumpStatusCallback function,
                                                       void *data,
                                                       CUcoredumpCallbackHandle *handle) {
    ENTER(cuCoredumpRegisterCompleteCallback);
    (void)data;
    return add(AT_END, function, handle);
}

SIM_EXPORT CUresult cuCoredumpDeregisterStartCallback(CUcoredumpCallbackHandle handle) {
    ENTER(cuCoredumpDeregisterStartCallback);
    return take_away(AT_START, handle);
}

SIM_EXPORT CUresult cuCoredumpDeregisterCompleteCallback(CUcoredumpCallbackHandle handle) {
    ENTER(cuCoredumpDeregisterCompleteCallback);
    return take_away(AT_END, handle);
}
