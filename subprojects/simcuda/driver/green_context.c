/* Green contexts: parts of a primary context with streams of their own. The shares of the device
 * that they are made from are counted and have no effect. */
#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "device_resource.h"
#include "event.h"
#include "lock.h"
#include "settings.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#if CUDA_VERSION >= 12040

/* What a CUdevResourceDesc denotes. Never freed: CUDA has no call for that. */
struct CUdevResourceDesc_st {
    unsigned int sm_count;
    CUdevice device;
    struct CUdevResourceDesc_st *next;
};

/* Never freed, so that a stale handle differs from a wrong one.
 * Invariant: while its context lives it holds one retain of the primary context. */
struct CUgreenCtx_st {
    struct CUctx_st *context;
    unsigned int sm_count;
    struct CUgreenCtx_st *next;
};

static struct CUdevResourceDesc_st *descriptions;
static struct CUgreenCtx_st *greens;

static CUresult find(CUgreenCtx handle, struct CUctx_st **context) {
    struct CUgreenCtx_st *green;

    LL_FOREACH(greens, green)
    if (green == handle)
        return context_check(green->context, context);
    return CUDA_ERROR_INVALID_CONTEXT;
}

/* --- resources --- */

static unsigned int share_of(const struct CUctx_st *context) {
    return context->green != NULL ? context->green->sm_count : device_resource_all();
}

SIM_EXPORT CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *resource,
                                        CUdevResourceType type) {
    CUresult result = device_resource_check(resource, type);
    struct CUctx_st *context;

    ENTER(cuCtxGetDevResource);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = context_check(handle, &context);
    if (result == CUDA_SUCCESS)
        device_resource_fill(resource, context->device, share_of(context));
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *resource,
                                             CUdevResourceType type) {
    CUresult result = device_resource_check(resource, type);
    struct CUctx_st *context;

    ENTER(cuGreenCtxGetDevResource);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = find(handle, &context);
    if (result == CUDA_SUCCESS)
        device_resource_fill(resource, context->device, handle->sm_count);
    sim_unlock();
    return result;
}

/* A green context's streams have its share, others the device. */
static CUresult stream_resource(CUstream handle, CUdevResource *resource, CUdevResourceType type,
                                enum null_stream null_stream) {
    CUresult result = device_resource_check(resource, type);
    struct CUstream_st *stream;

    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        device_resource_fill(resource, stream->context->device, share_of(stream->context));
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamGetDevResource, _ptsz,
             (CUstream stream, CUdevResource *resource, CUdevResourceType type),
             stream_resource(stream, resource, type, null_stream))

SIM_EXPORT CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources,
                                              unsigned int count) {
    struct CUdevResourceDesc_st *description;
    unsigned int sm_count = 0;

    ENTER(cuDevResourceGenerateDesc);
    if (out == NULL || resources == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++) {
        if (resources[i].type != CU_DEV_RESOURCE_TYPE_SM)
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        if (device_resource_owner(&resources[i]) != device_resource_owner(&resources[0]))
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        sm_count += resources[i].sm.smCount;
    }
    description = allocate_zeroed(sizeof *description);
    description->sm_count = sm_count;
    description->device = device_resource_owner(&resources[0]);
    sim_lock();
    LL_PREPEND(descriptions, description);
    sim_unlock();
    *out = description;
    return CUDA_SUCCESS;
}

/* --- contexts --- */

static const struct CUdevResourceDesc_st *find_description(CUdevResourceDesc handle) {
    const struct CUdevResourceDesc_st *description;

    LL_FOREACH(descriptions, description)
    if (description == handle)
        return description;
    return NULL;
}

SIM_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc handle, CUdevice device,
                                     unsigned int flags) {
    const struct CUdevResourceDesc_st *description;
    struct CUctx_st *primary;
    CUresult result;

    ENTER(cuGreenCtxCreate);
    if (out == NULL || flags != CU_GREEN_CTX_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    description = find_description(handle);
    result = description != NULL && description->device == device ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = context_retain_primary(device, &primary);
    if (result == CUDA_SUCCESS) {
        struct CUgreenCtx_st *green = allocate_zeroed(sizeof *green);

        green->sm_count = description->sm_count;
        result = context_make_green(primary, green, &green->context);
        if (result == CUDA_SUCCESS) {
            LL_PREPEND(greens, green);
            *out = green;
        } else {
            context_release_primary(device);
            free(green);
        }
    }
    sim_unlock();
    return result;
}

/* Its streams stay and can no longer be used, not even destroyed. */
SIM_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx handle) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuGreenCtxDestroy);
    sim_lock();
    result = find(handle, &context);
    if (result == CUDA_SUCCESS) {
        context_wait(context); /* [wait:green-destroy] assumed */
        if (context->state != CONTEXT_LIVE)
            result = CUDA_ERROR_CONTEXT_IS_DESTROYED; /* meanwhile, by another thread */
    }
    if (result == CUDA_SUCCESS) {
        context_end_green(context);
        result = context_release_primary(context->device);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx handle) {
    CUresult result;

    ENTER(cuCtxFromGreenCtx);
    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = find(handle, context);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGreenCtxGetId(CUgreenCtx handle, unsigned long long *id) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuGreenCtxGetId);
    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = handle != NULL ? find(handle, &context) : context_current_part(&context);
    if (result == CUDA_SUCCESS && context->green == NULL)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (result == CUDA_SUCCESS)
        *id = context->id;
    sim_unlock();
    return result;
}

/* --- streams and events --- */

SIM_EXPORT CUresult cuGreenCtxStreamCreate(CUstream *stream, CUgreenCtx handle, unsigned int flags,
                                           int priority) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuGreenCtxStreamCreate);
    if (stream == NULL || flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = find(handle, &context);
    if (result == CUDA_SUCCESS)
        result = stream_create_for_program(context, flags, priority, stream);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *green) {
    struct CUstream_st *stream;
    CUresult result;

    ENTER(cuStreamGetGreenCtx);
    if (green == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, NULL_IS_LEGACY, &stream);
    if (result == CUDA_SUCCESS)
        *green = stream->context->green;
    sim_unlock();
    return result;
}

/* Has `act` done to the green context's streams, none of which may be capturing. */
static CUresult for_event(CUgreenCtx handle, CUevent event,
                          CUresult (*act)(CUevent event, struct CUctx_st *context)) {
    struct CUctx_st *context;
    CUresult result;

    cost_spend(settings()->event_ns);
    sim_lock();
    result = find(handle, &context);
    if (result == CUDA_SUCCESS)
        result = capture_check_context(context);
    if (result == CUDA_SUCCESS)
        result = act(event, context);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGreenCtxRecordEvent(CUgreenCtx green, CUevent event) {
    ENTER(cuGreenCtxRecordEvent);
    return for_event(green, event, event_record_context);
}

SIM_EXPORT CUresult cuGreenCtxWaitEvent(CUgreenCtx green, CUevent event) {
    ENTER(cuGreenCtxWaitEvent);
    return for_event(green, event, event_hold_context);
}

#endif
