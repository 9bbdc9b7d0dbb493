/* Green contexts: parts of a primary context with streams of their own. The shares of the device
 * that they are made from are counted and have no effect. */
#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "event.h"
#include "lock.h"
#include "settings.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#if CUDA_VERSION >= 12040

/* The rules of compute capability 8.x (CUDA programming guide, green contexts); the attribute
 * table's count.
 */
enum { SM_COUNT = 108, SM_MINIMUM = 4, SM_ALIGNMENT = 2 };

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

/* A resource keeps its device where only the driver looks. */
static void fill_resource(CUdevResource *resource, CUdevice device, unsigned int sm_count) {
    memset(resource, 0, sizeof *resource);
    resource->type = CU_DEV_RESOURCE_TYPE_SM;
    resource->sm.smCount = sm_count;
#if CUDA_VERSION >= 13000
    resource->sm.minSmPartitionSize = SM_MINIMUM;
    resource->sm.smCoscheduledAlignment = SM_ALIGNMENT;
#endif
    memcpy(resource->_internal_padding, &device, sizeof device);
}

static CUdevice device_of(const CUdevResource *resource) {
    CUdevice device;

    memcpy(&device, resource->_internal_padding, sizeof device);
    return device;
}

static CUresult find(CUgreenCtx handle, struct CUctx_st **context) {
    struct CUgreenCtx_st *green;

    LL_FOREACH(greens, green)
    if (green == handle)
        return context_check(green->context, context);
    return CUDA_ERROR_INVALID_CONTEXT;
}

/* --- resources --- */

static CUresult check_resource(const CUdevResource *resource, CUdevResourceType type) {
    if (resource == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return type == CU_DEV_RESOURCE_TYPE_SM ? CUDA_SUCCESS : CUDA_ERROR_INVALID_RESOURCE_TYPE;
}

SIM_EXPORT CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource,
                                           CUdevResourceType type) {
    CUresult result = check_resource(resource, type);

    ENTER(cuDeviceGetDevResource);
    if (result == CUDA_SUCCESS)
        result = device_check(device);
    if (result == CUDA_SUCCESS)
        fill_resource(resource, device, SM_COUNT);
    return result;
}

SIM_EXPORT CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *resource,
                                        CUdevResourceType type) {
    CUresult result = check_resource(resource, type);
    struct CUctx_st *context;

    ENTER(cuCtxGetDevResource);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = context_check(handle, &context);
    if (result == CUDA_SUCCESS)
        fill_resource(resource, context->device,
                      context->green != NULL ? context->green->sm_count : SM_COUNT);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *resource,
                                             CUdevResourceType type) {
    CUresult result = check_resource(resource, type);
    struct CUctx_st *context;

    ENTER(cuGreenCtxGetDevResource);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = find(handle, &context);
    if (result == CUDA_SUCCESS)
        fill_resource(resource, context->device, handle->sm_count);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuDevSmResourceSplitByCount(CUdevResource *groups, unsigned int *count,
                                                const CUdevResource *input,
                                                CUdevResource *remaining, unsigned int flags,
                                                unsigned int minimum) {
    unsigned int size, fitting, made;

    ENTER(cuDevSmResourceSplitByCount);
    (void)flags;
    if (count == NULL || input == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (input->type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    if (minimum > input->sm.smCount)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    size = minimum < SM_MINIMUM ? SM_MINIMUM : minimum;
    size = (size + SM_ALIGNMENT - 1) / SM_ALIGNMENT * SM_ALIGNMENT;
    fitting = input->sm.smCount / size;
    made = groups == NULL || fitting < *count ? fitting : *count;
    for (unsigned int i = 0; groups != NULL && i < made; i++)
        fill_resource(&groups[i], device_of(input), size);
    if (remaining != NULL)
        fill_resource(remaining, device_of(input), input->sm.smCount - made * size);
    *count = made;
    return CUDA_SUCCESS;
}

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
        if (device_of(&resources[i]) != device_of(&resources[0]))
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        sm_count += resources[i].sm.smCount;
    }
    description = allocate_zeroed(sizeof *description);
    description->sm_count = sm_count;
    description->device = device_of(&resources[0]);
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
