#include "event.h"

#include "allocate.h"
#include "capture.h"
#include "cost.h"
#include "ipc.h"
#include "lock.h"
#include "object_memory.h"
#include "settings.h"

#include <stdlib.h>
#include <utlist.h>

static struct CUevent_st *events; /* all, by handle */

static struct CUevent_st *find(CUevent handle) {
    struct CUevent_st *event;

    HASH_FIND(by_handle, events, &handle, sizeof(void *), event);
    return event;
}

CUresult event_check(CUevent event) {
    sim_check_held();
    return event != NULL && find(event) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult event_create(struct CUctx_st *context, unsigned int flags, CUevent *out) {
    sim_check_held();
    struct CUevent_st *event;

    if (flags > (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS) ||
        ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (object_memory_take(context->device) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event = allocate_zeroed(sizeof *event);
    event->context = context;
    event->flags = flags;
    DL_APPEND(context->events, event);
    *out = event;
    event->self = event;
    HASH_ADD(by_handle, events, self, sizeof(void *), event);
    return CUDA_SUCCESS;
}

static void forget_record(struct CUevent_st *event) {
    work_drop(event->work);
    event->work = NULL;
    if (event->point != NULL)
        capture_point_drop(event->point);
    event->point = NULL;
}

/* [wait:event-destroy-does-not] cuda.h 16109 */
static void destroy(struct CUevent_st *event) {
    forget_record(event);
    if (event->shared != NULL)
        ipc_event_ending(event);
    object_memory_give(event->context->device);
    DL_DELETE(event->context->events, event);
    HASH_DELETE(by_handle, events, event);
    free(event);
}

void event_destroy_all(struct CUctx_st *context) {
    sim_check_held();
    while (context->events != NULL)
        destroy(context->events); // NOLINT(clang-analyzer-unix.Malloc): it leaves the list
}

/* --- entry points --- */

SIM_EXPORT CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuEventCreate);
    if (event == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = event_create(context, flags, event);
    sim_unlock();
    return result;
}

/* Records behind everything in `stream`. [order:event-snapshot] cuda.h 15951: the event keeps this
 * work whatever comes later. [order:legacy-event-delays] assumed: in the legacy stream it is work
 * like any other, which later work of blocking streams waits for. */
CUresult event_record_in(CUevent event, struct CUstream_st *stream) {
    sim_check_held();
    struct op *op;
    struct work *work;
    CUresult result;

    if (stream->capture != NULL) {
        forget_record(event);
        event->point = capture_record(stream);
        return CUDA_SUCCESS;
    }
    op = event->shared != NULL ? ipc_event_record(event) : op_marker("cuEventRecord");
    result = stream_submit(stream, op, NULL, &work);
    op_drop(op);
    if (result == CUDA_SUCCESS) {
        forget_record(event);
        event->work = work;
        stream_go(stream);
    }
    return result;
}

static CUresult run_nothing(struct op *op) {
    (void)op;
    return CUDA_SUCCESS;
}

struct op *event_node_op(CUevent event, CUgraphNodeType type) {
    sim_check_held();
    struct op *op = op_create("event node", run_nothing); /* a launch has a work in its place */

    op->node_type = type;
    op->as.event = event;
    return op;
}

/* Makes a node of a record or wait that is not one between the streams of a capture. cuda.h
 * 16012 */
static CUresult capture_external(CUevent event, struct CUstream_st *stream, CUgraphNodeType type) {
    struct op *op;
    CUresult result;

    if (stream->capture == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    op = event_node_op(event, type);
    result = capture_add(stream, op);
    op_drop(op);
    return result;
}

static CUresult record(CUevent event, CUstream handle, unsigned int flags,
                       enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if ((flags & ~CU_EVENT_RECORD_EXTERNAL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    cost_spend(settings()->event_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = event_check(event);
    if (result == CUDA_SUCCESS && event->context != context_root(stream->context))
        result = CUDA_ERROR_INVALID_HANDLE; /* [order:event-one-context] cuda.h 15952 */
    if (result == CUDA_SUCCESS)
        result = (flags & CU_EVENT_RECORD_EXTERNAL) != 0
                     ? capture_external(event, stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD)
                     : event_record_in(event, stream);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuEventRecord, _ptsz, (CUevent event, CUstream stream),
             record(event, stream, 0, null_stream))
EXPORT_FORMS(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned int flags),
             record(event, stream, flags, null_stream))

CUresult event_record_context(CUevent event, struct CUctx_st *context) {
    sim_check_held();
    CUresult result = event_check(event);

    if (result != CUDA_SUCCESS)
        return result;
    if (event->context != context_root(context) || event->shared != NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    forget_record(event);
    event->work = stream_fence(context);
    return CUDA_SUCCESS;
}

/* `stream` executes nothing more before the event's last record has happened.
 * [order:event-latest-record] cuda.h 15959; [order:wait-any-context] cuda.h 15239 */
CUresult event_hold_stream(CUevent event, struct CUstream_st *stream) {
    sim_check_held();
    if (event->point != NULL)
        return capture_wait(stream, event->point);
    if (stream->capture != NULL)
        return capture_wait(stream, NULL);
    if (event->shared != NULL)
        return stream_submit_after(stream, ipc_event_hold(event), event->work);
    if (event->work == NULL)
        return CUDA_SUCCESS; /* [order:event-empty] cuda.h 15963 */
    return stream_submit_after(stream, op_marker("cuStreamWaitEvent"), event->work);
}

/* [order:context-wait] cuda.h 7054 */
CUresult event_hold_context(CUevent event, struct CUctx_st *context) {
    sim_check_held();
    struct CUctx_st *part = NULL;
    struct CUstream_st *stream;
    CUresult result = event_check(event);

    if (result == CUDA_SUCCESS && event->point != NULL) {
        capture_point_invalidate(event->point); /* [capture:context-wait-event] cuda.h 7061 */
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    while (result == CUDA_SUCCESS && (part = context_next_part(context, part)) != NULL)
        DL_FOREACH(part->streams, stream)
    if (!stream->destroyed && stream != part->fence && result == CUDA_SUCCESS)
        result = event_hold_stream(event, stream);
    return result;
}

static CUresult wait_event(CUstream handle, CUevent event, unsigned int flags,
                           enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if ((flags & ~CU_EVENT_WAIT_EXTERNAL) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    cost_spend(settings()->event_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = event_check(event);
    if (result == CUDA_SUCCESS)
        result = (flags & CU_EVENT_WAIT_EXTERNAL) != 0
                     ? capture_external(event, stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT)
                     : event_hold_stream(event, stream);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned int flags),
             wait_event(stream, event, flags, null_stream))

/* What a query or wait of `event` may not be: in a capture, or unsafe while one is under way.
 * [capture:captured-event] cuda.h 3113, 15465; [capture:unsafe-query] pytorch#104487 */
static CUresult begin_inquiry(CUevent event) {
    struct CUctx_st *context;
    CUresult result = event_check(event);

    if (result == CUDA_SUCCESS && event->point != NULL) {
        capture_point_invalidate(event->point);
        result = CUDA_ERROR_CAPTURED_EVENT;
    }
    if (result == CUDA_SUCCESS)
        result = context_check(event->context, &context);
    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    return result;
}

SIM_EXPORT CUresult cuEventQuery(CUevent event) {
    CUresult result;

    ENTER(cuEventQuery);
    cost_spend(settings()->event_ns);
    sim_lock();
    work_settle();
    result = begin_inquiry(event);
    if (result == CUDA_SUCCESS && event->shared != NULL && !ipc_event_done(event))
        result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS && event->work != NULL) {
        if (work_is_done(event->work))
            work_seen(event->work); /* [wait:query-is-wait] cuda.h 16050 */
        else
            result = CUDA_ERROR_NOT_READY;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuEventSynchronize(CUevent event) {
    CUresult result;

    ENTER(cuEventSynchronize);
    cost_spend(settings()->sync_ns);
    sim_lock();
    result = begin_inquiry(event);
    if (result == CUDA_SUCCESS) {
        struct CUctx_st *context = event->context;
        struct shared_event *shared = event->shared;

        if (event->work != NULL) /* the event may be destroyed meanwhile, or its context end */
            work_wait(event->work);
        if (shared != NULL)
            ipc_event_wait(shared);
        result = context_error(context);
    }
    sim_unlock();
    return result;
}

static CUresult elapsed(float *milliseconds, CUevent start, CUevent end) {
    CUresult result;

    if (milliseconds == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    work_settle();
    result = begin_inquiry(start);
    if (result == CUDA_SUCCESS)
        result = begin_inquiry(end);
    if (result == CUDA_SUCCESS && (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) != 0 ||
                                   start->work == NULL || end->work == NULL))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS && (!work_is_done(start->work) || !work_is_done(end->work)))
        result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS) {
        *milliseconds =
            (float)((double)(int64_t)(end->work->finished_ns - start->work->finished_ns) / 1e6);
        work_seen(start->work);
        work_seen(end->work);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    ENTER(cuEventElapsedTime);
    return elapsed(milliseconds, start, end);
}

SIM_EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end) {
    ENTER(cuEventElapsedTime_v2);
    return elapsed(milliseconds, start, end);
}

static CUresult destroy_event(CUevent event) {
    CUresult result;

    sim_lock();
    result = event_check(event);
    if (result == CUDA_SUCCESS)
        destroy(event);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuEventDestroy(CUevent event) {
    ENTER(cuEventDestroy);
    return destroy_event(event);
}

SIM_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    ENTER(cuEventDestroy_v2);
    return destroy_event(event);
}
