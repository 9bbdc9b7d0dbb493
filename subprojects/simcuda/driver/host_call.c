/* Functions of the program that a stream calls: cuLaunchHostFunc and cuStreamAddCallback. */
#include "host_call.h"

#include "context.h"
#include "cost.h"
#include "lock.h"
#include "settings.h"
#include "stream.h"

static CUresult run(struct op *op) {
    const struct host_call *call = &op->as.host;
    bool before = entry_enter_host_function(true);

    if (call->callback != NULL) {
        CUresult status;

        sim_lock();
        status = context_error(call->context);
        sim_unlock();
        call->callback(call->stream, status, call->data);
    } else {
        call->function(call->data);
    }
    entry_enter_host_function(before);
    return CUDA_SUCCESS;
}

struct op *host_call_op(CUhostFn function, void *data) {
    struct op *op = op_create("host function", run);

    op->node_type = CU_GRAPH_NODE_TYPE_HOST;
    op->calls_host = true;
    op->as.host.function = function;
    op->as.host.data = data;
    return op;
}

/* [order:host-function] cuda.h 18067 */
static CUresult submit(CUstream handle, const struct host_call *call,
                       enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (call->function == NULL && call->callback == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    cost_spend(settings()->launch_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && call->callback != NULL && stream->capture != NULL)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* [capture:callback] cuda.h 15275 */
    if (result == CUDA_SUCCESS) {
        struct op *op = host_call_op(call->function, call->data);

        op->as.host.callback = call->callback;
        op->as.host.stream = handle;
        op->as.host.context = stream->context;
        result = stream_run(stream, op, false);
    }
    sim_unlock();
    return result;
}

static CUresult launch(CUstream stream, CUhostFn function, void *data,
                       enum null_stream null_stream) {
    struct host_call call = {.function = function, .data = data};

    return submit(stream, &call, null_stream);
}

EXPORT_FORMS(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void *data),
             launch(stream, function, data, null_stream))

/* How the driver's own thread waits for the function's turn changes nothing here. */
static CUresult launch_in_mode(CUstream stream, CUhostFn function, void *data, unsigned int mode,
                               enum null_stream null_stream) {
    return mode <= 1 ? launch(stream, function, data, null_stream) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT_FORMS(cuLaunchHostFunc_v2, _ptsz,
             (CUstream stream, CUhostFn function, void *data, unsigned int mode),
             launch_in_mode(stream, function, data, mode, null_stream))

static CUresult add_callback(CUstream stream, CUstreamCallback callback, void *data,
                             unsigned int flags, enum null_stream null_stream) {
    struct host_call call = {.callback = callback, .data = data};

    return flags == 0 ? submit(stream, &call, null_stream) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT_FORMS(cuStreamAddCallback, _ptsz,
             (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags),
             add_callback(stream, callback, data, flags, null_stream))
