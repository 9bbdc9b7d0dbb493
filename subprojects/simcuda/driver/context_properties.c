/* What can be asked of a context and set in it. */
#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "event.h"
#include "lock.h"
#include "settings.h"
#include "stream.h"

#include <stdlib.h>

/* `handle` or, when that is NULL, the current context. */
static CUresult named_or_current(CUcontext handle, struct CUctx_st **context) {
    return handle != NULL ? context_check(handle, context) : context_current_part(context);
}

static CUresult get_device(CUdevice *device, CUcontext handle) {
    struct CUctx_st *context;
    CUresult result;

    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = named_or_current(handle, &context);
    if (result == CUDA_SUCCESS)
        *device = context->device;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
    ENTER(cuCtxGetDevice);
    return get_device(device, NULL);
}

SIM_EXPORT CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context) {
    ENTER(cuCtxGetDevice_v2);
    return get_device(device, context);
}

SIM_EXPORT CUresult cuCtxGetFlags(unsigned int *flags) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxGetFlags);
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        *flags = context->flags;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxSetFlags(unsigned int flags) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxSetFlags);
    if (!context_flags_valid(flags))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        context->flags = flags;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long *id) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxGetId);
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = named_or_current(handle, &context);
    if (result == CUDA_SUCCESS)
        *id = context->id;
    sim_unlock();
    return result;
}

/* [wait:context-synchronize] cuda.h 6594 */
static CUresult synchronize(CUcontext handle) {
    struct CUctx_st *context;
    CUresult result;

    cost_spend(settings()->sync_ns);
    sim_lock();
    result = named_or_current(handle, &context);
    if (result == CUDA_SUCCESS)
        result = capture_check_context(context);
    if (result == CUDA_SUCCESS)
        result = context_wait(context);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxSynchronize(void) {
    ENTER(cuCtxSynchronize);
    return synchronize(NULL);
}

SIM_EXPORT CUresult cuCtxSynchronize_v2(CUcontext context) {
    ENTER(cuCtxSynchronize_v2);
    return synchronize(context);
}

SIM_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxSetLimit);
    if ((unsigned int)limit >= (unsigned int)CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        context->limits[limit] = value;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxGetLimit);
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned int)limit >= (unsigned int)CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        *value = context->limits[limit];
    sim_unlock();
    return result;
}

/* Reads or, with `set`, writes one of the two preferences that simulated kernels ignore. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be parenthesized */
#define PREFERENCE(getter, setter, type, field, last)                                              \
    SIM_EXPORT CUresult getter(type *value) {                                                      \
        struct CUctx_st *context;                                                                  \
        CUresult result;                                                                           \
                                                                                                   \
        ENTER(getter);                                                                             \
        if (value == NULL)                                                                         \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        sim_lock();                                                                                \
        result = context_current(&context);                                                        \
        if (result == CUDA_SUCCESS)                                                                \
            *value = context->field;                                                               \
        sim_unlock();                                                                              \
        return result;                                                                             \
    }                                                                                              \
    SIM_EXPORT CUresult setter(type value) {                                                       \
        struct CUctx_st *context;                                                                  \
        CUresult result;                                                                           \
                                                                                                   \
        ENTER(setter);                                                                             \
        if ((unsigned int)value > (unsigned int)(last))                                            \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        sim_lock();                                                                                \
        result = context_current(&context);                                                        \
        if (result == CUDA_SUCCESS)                                                                \
            context->field = value;                                                                \
        sim_unlock();                                                                              \
        return result;                                                                             \
    }

/* NOLINTEND(bugprone-macro-parentheses) */

PREFERENCE(cuCtxGetCacheConfig, cuCtxSetCacheConfig, CUfunc_cache, cache_config,
           CU_FUNC_CACHE_PREFER_EQUAL)
PREFERENCE(cuCtxGetSharedMemConfig, cuCtxSetSharedMemConfig, CUsharedconfig, shared_config,
           CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)

SIM_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxGetApiVersion);
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = named_or_current(handle, &context);
    if (result == CUDA_SUCCESS)
        *version = context->api_version;
    sim_unlock();
    return result;
}

enum { PRIORITY_LEAST = 0, PRIORITY_GREATEST = -5 };

SIM_EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxGetStreamPriorityRange);
    sim_lock();
    result = context_current(&context);
    sim_unlock();
    if (result == CUDA_SUCCESS && least != NULL)
        *least = PRIORITY_LEAST;
    if (result == CUDA_SUCCESS && greatest != NULL)
        *greatest = PRIORITY_GREATEST;
    return result;
}

SIM_EXPORT CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags) {
    struct CUctx_st *context, *peer;
    CUresult result;

    ENTER(cuCtxEnablePeerAccess);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = context_check(handle, &peer);
    if (result == CUDA_SUCCESS && context == peer)
        result = CUDA_ERROR_INVALID_DEVICE;
    for (size_t i = 0; result == CUDA_SUCCESS && i < context->peer_count; i++)
        if (context->peers[i] == peer)
            result = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (result == CUDA_SUCCESS) {
        context->peers = allocate_again(context->peers, (context->peer_count + 1) * sizeof(void *));
        context->peers[context->peer_count++] = peer;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxDisablePeerAccess(CUcontext handle) {
    struct CUctx_st *context, *peer;
    CUresult result;

    ENTER(cuCtxDisablePeerAccess);
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = context_check(handle, &peer);
    if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
        for (size_t i = 0; i < context->peer_count; i++) {
            if (context->peers[i] == peer) {
                context->peers[i] = context->peers[--context->peer_count];
                result = CUDA_SUCCESS;
            }
        }
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxRecordEvent(CUcontext handle, CUevent event) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxRecordEvent);
    cost_spend(settings()->event_ns);
    sim_lock();
    result = named_or_current(handle, &context);
    if (result == CUDA_SUCCESS)
        result = capture_check_context(context);
    if (result == CUDA_SUCCESS)
        result = event_record_context(event, context);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxWaitEvent(CUcontext handle, CUevent event) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuCtxWaitEvent);
    sim_lock();
    result = named_or_current(handle, &context);
    if (result == CUDA_SUCCESS)
        result = capture_check_context(context);
    if (result == CUDA_SUCCESS)
        result = event_hold_context(event, context);
    sim_unlock();
    return result;
}
