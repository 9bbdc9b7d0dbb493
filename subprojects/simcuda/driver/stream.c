/* The entry points of streams. */
#include "stream.h"

#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "object_memory.h"
#include "settings.h"

#include <stdlib.h>
#include <utlist.h>

/* What programs have made, by handle. Default streams and fences are not among them: a handle of a
 * stream that is gone may have the address of one of these. */
static struct CUstream_st *streams;
static uint64_t last_id;

/* This thread's default stream in each context it used one in. */
struct own_stream {
    struct CUctx_st *context;
    uint64_t context_id;
    struct CUstream_st *stream;
    struct own_stream *next;
};

static pthread_key_t own_streams;
static pthread_once_t own_streams_made = PTHREAD_ONCE_INIT;

struct CUstream_st *stream_create(struct CUctx_st *context, enum stream_kind kind, int priority) {
    sim_check_held();
    struct CUstream_st *stream = allocate_zeroed(sizeof *stream);

    stream->context = context;
    stream->kind = kind;
    stream->priority = priority;
    stream->attributes = stream_attributes_default;
    stream->id = ++last_id;
    stream->timeline = timeline_take(&stream->submitted);
    pthread_cond_init(&stream->wake, NULL);
    DL_APPEND(context->streams, stream);
    return stream;
}

void stream_destroy(struct CUstream_st *stream) {
    sim_check_held();
    capture_stream_ending(stream);
    if (stream->self != NULL)
        HASH_DELETE(by_handle, streams, stream);
    if (stream->holds_memory)
        object_memory_give(stream->context->device);
    stream->destroyed = true;
    stream_drained(stream);
}

/* Has the thread's default streams destroyed at its end, unless their context went before. */
static void end_own_streams(void *list) {
    struct own_stream *own, *next;

    if (entry_is_forked())
        return; /* a thread that is not here may have had the lock */
    sim_lock();
    for (own = list; own != NULL; own = next) {
        next = own->next;
        if (own->context->state == CONTEXT_LIVE && own->context->id == own->context_id)
            stream_destroy(own->stream);
        free(own);
    }
    sim_unlock();
}

static void make_own_streams_key(void) {
    pthread_key_create(&own_streams, end_own_streams);
}

static struct CUstream_st *own_stream(struct CUctx_st *context) {
    struct own_stream *own, *list;

    pthread_once(&own_streams_made, make_own_streams_key);
    list = pthread_getspecific(own_streams);
    for (own = list; own != NULL; own = own->next)
        if (own->context == context && own->context_id == context->id)
            return own->stream;
    own = allocate_zeroed(sizeof *own);
    own->context = context;
    own->context_id = context->id;
    own->stream = stream_create(context, STREAM_PER_THREAD, 0);
    own->next = list;
    pthread_setspecific(own_streams, own);
    return own->stream;
}

CUresult stream_resolve(struct CUctx_st *context, CUstream handle, enum null_stream null_stream,
                        struct CUstream_st **out) {
    sim_check_held();
    struct CUstream_st *stream;

    if (handle == NULL)
        handle = null_stream == NULL_IS_LEGACY ? CU_STREAM_LEGACY : CU_STREAM_PER_THREAD;
    if (handle == CU_STREAM_LEGACY) {
        *out = context->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        *out = own_stream(context);
        return CUDA_SUCCESS;
    }
    HASH_FIND(by_handle, streams, &handle, sizeof(void *), stream);
    if (stream == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = stream;
    return stream->context->state == CONTEXT_LIVE ? context_error(stream->context)
                                                  : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult stream_current(CUstream handle, enum null_stream null_stream,
                        struct CUstream_st **stream) {
    sim_check_held();
    struct CUctx_st *context;
    CUresult result = context_current_part(&context);

    return result == CUDA_SUCCESS ? stream_resolve(context, handle, null_stream, stream) : result;
}

/* --- entry points --- */

int stream_priority_in_range(int priority) {
    sim_check_held();
    return priority < -5 ? -5 : priority > 0 ? 0 : priority;
}

CUresult stream_create_for_program(struct CUctx_st *context, unsigned int flags, int priority,
                                   CUstream *out) {
    sim_check_held();
    CUresult result = object_memory_take(context->device);

    if (result != CUDA_SUCCESS)
        return result;
    *out = stream_create(context,
                         flags == CU_STREAM_NON_BLOCKING ? STREAM_NON_BLOCKING : STREAM_BLOCKING,
                         stream_priority_in_range(priority));
    (*out)->holds_memory = true;
    (*out)->self = *out;
    HASH_ADD(by_handle, streams, self, sizeof(void *), *out);
    return CUDA_SUCCESS;
}

static CUresult create(CUstream *out, unsigned int flags, int priority) {
    struct CUctx_st *context;
    CUresult result;

    if (out == NULL || (flags & ~CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current_part(&context);
    if (result == CUDA_SUCCESS)
        result = stream_create_for_program(context, flags, priority, out);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned int flags) {
    ENTER(cuStreamCreate);
    return create(stream, flags, 0);
}

SIM_EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
    ENTER(cuStreamCreateWithPriority);
    return create(stream, flags, priority);
}

/* Work still pending in the stream runs on; only its handle is gone. [order:destroyed-stream]
 * cuda.h 15802 */
static CUresult destroy(CUstream handle) {
    struct CUstream_st *stream;
    CUresult result;

    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    HASH_FIND(by_handle, streams, &handle, sizeof(void *), stream);
    if (stream == NULL)
        result = CUDA_ERROR_INVALID_HANDLE;
    else if (stream->context->state != CONTEXT_LIVE)
        result = CUDA_ERROR_CONTEXT_IS_DESTROYED; /* a green one, which leaves its streams behind */
    else
        result = context_error(stream->context);
    if (stream != NULL && result != CUDA_ERROR_CONTEXT_IS_DESTROYED)
        stream_destroy(stream);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuStreamDestroy(CUstream stream) {
    ENTER(cuStreamDestroy);
    return destroy(stream);
}

SIM_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
    ENTER(cuStreamDestroy_v2);
    return destroy(stream);
}

/* The stream, if one may ask or wait for its progress now. */
static CUresult begin_inquiry(CUstream handle, enum null_stream null_stream,
                              struct CUstream_st **stream) {
    CUresult result = stream_current(handle, null_stream, stream);

    if (result == CUDA_SUCCESS)
        result = capture_check_stream(*stream);
    if (result == CUDA_SUCCESS)
        result = capture_check_legacy(*stream);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    return result;
}

static CUresult synchronize(CUstream handle, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    cost_spend(settings()->sync_ns);
    sim_lock();
    result = begin_inquiry(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = stream_synchronize(stream);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamSynchronize, _ptsz, (CUstream stream), synchronize(stream, null_stream))

static CUresult query(CUstream handle, enum null_stream null_stream) {
    struct CUstream_st *stream, *other;
    CUresult result;

    cost_spend(settings()->event_ns);
    sim_lock();
    work_settle();
    result = begin_inquiry(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS) {
        if (stream->last != NULL && !work_is_done(stream->last))
            result = CUDA_ERROR_NOT_READY;
        DL_FOREACH(stream->context->streams, other)
        if (result == CUDA_SUCCESS && stream->kind == STREAM_LEGACY && stream_is_blocking(other) &&
            other->last != NULL && !work_is_done(other->last))
            result = CUDA_ERROR_NOT_READY;
        if (result == CUDA_SUCCESS)
            result = stream_synchronize(stream); /* returns at once, and orders the host */
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamQuery, _ptsz, (CUstream stream), query(stream, null_stream))

static CUresult get_flags(CUstream handle, unsigned int *flags, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        *flags = stream->kind == STREAM_NON_BLOCKING ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned int *flags),
             get_flags(stream, flags, null_stream))

static CUresult get_priority(CUstream handle, int *priority, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (priority == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        *priority = stream->priority;
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamGetPriority, _ptsz, (CUstream stream, int *priority),
             get_priority(stream, priority, null_stream))

static CUresult get_id(CUstream handle, unsigned long long *id, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (id == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        *id = stream->id;
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long *id),
             get_id(stream, id, null_stream))

static CUresult get_context(CUstream handle, CUcontext *context, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (context == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        *context = context_root(stream->context);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext *context),
             get_context(stream, context, null_stream))

static CUresult get_contexts(CUstream handle, CUcontext *context, CUgreenCtx *green,
                             enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (context == NULL || green == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS) {
        *context = context_root(stream->context);
        *green = stream->context->green;
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamGetCtx_v2, _ptsz, (CUstream stream, CUcontext *context, CUgreenCtx *green),
             get_contexts(stream, context, green, null_stream))

static CUresult get_device(CUstream handle, CUdevice *device, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        *device = stream->context->device;
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice *device),
             get_device(stream, device, null_stream))
