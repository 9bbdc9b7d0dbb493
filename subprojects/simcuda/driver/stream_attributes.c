/* The attributes of streams: what programs say is checked and answered again, and only the priority
 * is asked for anywhere else. */
#include "context.h"
#include "lock.h"
#include "stream.h"

const struct stream_attributes stream_attributes_default = {
    .policy = CU_SYNC_POLICY_AUTO,
    .domains = {.default_ = 0, .remote = 1},
};

static CUresult get_from(const struct CUstream_st *stream, CUstreamAttrID id,
                         CUstreamAttrValue *value) {
    const struct stream_attributes *attributes = &stream->attributes;

    switch ((unsigned int)id) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        value->accessPolicyWindow = attributes->window;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value->syncPolicy = attributes->policy;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_PRIORITY:
        value->priority = stream->priority;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        value->memSyncDomainMap = attributes->domains;
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
        value->memSyncDomain = attributes->domain;
        return CUDA_SUCCESS;
#if CUDA_VERSION >= 13000
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        value->nvlinkUtilCentricScheduling = attributes->nvlink_centric;
        return CUDA_SUCCESS;
#endif
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static int device_limit(const struct CUstream_st *stream, CUdevice_attribute attribute) {
    return device_attribute(attribute, stream->context->device);
}

/* cuda.h 1734 */
static CUresult set_window(struct CUstream_st *stream, const CUaccessPolicyWindow *window) {
    if (window->num_bytes >
            (size_t)device_limit(stream, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE) ||
        !(window->hitRatio >= 0 && window->hitRatio <= 1) ||
        (unsigned int)window->hitProp > CU_ACCESS_PROPERTY_PERSISTING ||
        (unsigned int)window->missProp > CU_ACCESS_PROPERTY_STREAMING)
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes.window = *window;
    return CUDA_SUCCESS;
}

static CUresult set_policy(struct CUstream_st *stream, CUsynchronizationPolicy policy) {
    if ((unsigned int)policy < CU_SYNC_POLICY_AUTO ||
        (unsigned int)policy > CU_SYNC_POLICY_BLOCKING_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes.policy = policy;
    return CUDA_SUCCESS;
}

static CUresult set_domains(struct CUstream_st *stream, CUlaunchMemSyncDomainMap domains) {
    int count = device_limit(stream, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);

    if (domains.default_ >= count || domains.remote >= count)
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes.domains = domains;
    return CUDA_SUCCESS;
}

static CUresult set_domain(struct CUstream_st *stream, CUlaunchMemSyncDomain domain) {
    if ((unsigned int)domain > CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE)
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes.domain = domain;
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 13000
static CUresult set_nvlink_centric(struct CUstream_st *stream, unsigned int centric) {
    if (centric > 1)
        return CUDA_ERROR_INVALID_VALUE;
    stream->attributes.nvlink_centric = centric;
    return CUDA_SUCCESS;
}
#endif

static CUresult set_in(struct CUstream_st *stream, CUstreamAttrID id,
                       const CUstreamAttrValue *value) {
    switch ((unsigned int)id) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        return set_window(stream, &value->accessPolicyWindow);
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        return set_policy(stream, value->syncPolicy);
    case CU_STREAM_ATTRIBUTE_PRIORITY:
        stream->priority = stream_priority_in_range(value->priority);
        return CUDA_SUCCESS;
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        return set_domains(stream, value->memSyncDomainMap);
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return set_domain(stream, value->memSyncDomain);
#if CUDA_VERSION >= 13000
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        return set_nvlink_centric(stream, value->nvlinkUtilCentricScheduling);
#endif
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* --- entry points --- */

static CUresult get(CUstream handle, CUstreamAttrID id, CUstreamAttrValue *value,
                    enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = get_from(stream, id, value);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamGetAttribute, _ptsz,
             (CUstream stream, CUstreamAttrID id, CUstreamAttrValue *value),
             get(stream, id, value, null_stream))

static CUresult set(CUstream handle, CUstreamAttrID id, const CUstreamAttrValue *value,
                    enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = set_in(stream, id, value);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamSetAttribute, _ptsz,
             (CUstream stream, CUstreamAttrID id, const CUstreamAttrValue *value),
             set(stream, id, value, null_stream))

static CUresult copy(CUstream to_handle, CUstream from_handle, enum null_stream null_stream) {
    struct CUstream_st *to, *from;
    CUresult result;

    sim_lock();
    result = stream_current(to_handle, null_stream, &to);
    if (result == CUDA_SUCCESS)
        result = stream_current(from_handle, null_stream, &from);
    if (result == CUDA_SUCCESS && to->context != from->context)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        to->attributes = from->attributes;
        to->priority = from->priority;
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamCopyAttributes, _ptsz, (CUstream to, CUstream from),
             copy(to, from, null_stream))
