#include "graph_exec.h"

#include "allocate.h"
#include "capture.h"
#include "conditional.h"
#include "context.h"
#include "cost.h"
#include "graph_memory.h"
#include "graph_op.h"
#include "host_backing.h"
#include "lock.h"
#include "object_memory.h"
#include "settings.h"
#include "stream.h"

#include <stdlib.h>
#include <utlist.h>

/* An instantiated graph. It takes memory when it is made and again when it is first uploaded, which
 * a launch does if the program has not. */
struct CUgraphExec_st {
    struct CUgraph_st *graph; /* its own copy, which no program has a handle of */
    struct op *op;            /* what the copy does; NULL: it was changed since */
    CUdevice device;
    bool uploaded;
    cuuint64_t flags;  /* of CUgraphInstantiate_flags */
    struct work *last; /* its last launch, which the next one waits for; NULL when there was none */
    struct CUgraphExec_st *next;
};

static struct CUgraphExec_st *executables;

CUresult graph_exec_find(CUgraphExec handle, struct CUgraphExec_st **executable) {
    sim_check_held();
    LL_FOREACH(executables, *executable)
    if (*executable == handle)
        return CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

struct CUgraph_st *graph_exec_copy(const struct CUgraphExec_st *executable) {
    sim_check_held();
    return executable->graph;
}

cuuint64_t graph_exec_flags(const struct CUgraphExec_st *executable) {
    sim_check_held();
    return executable->flags;
}

struct CUgraphNode_st *graph_exec_node(const struct CUgraphExec_st *executable, CUgraphNode node) {
    sim_check_held();
    if (graph_find_node(node) == NULL)
        return NULL;
    if (node->index < executable->graph->count &&
        executable->graph->nodes[node->index]->origin == node->id)
        return executable->graph->nodes[node->index]; /* as long as nothing was removed */
    return graph_find_copy(executable->graph, node->id);
}

static void forget_op(struct CUgraphExec_st *executable) {
    if (executable->op != NULL)
        op_drop(executable->op); /* launches under way keep it */
    executable->op = NULL;
}

void graph_exec_changed(struct CUgraphExec_st *executable) {
    sim_check_held();
    forget_op(executable);
}

static struct op *op_of(struct CUgraphExec_st *executable) {
    if (executable->op == NULL)
        executable->op = graph_op(executable->graph);
    return executable->op;
}

/* --- instantiation --- */

/* A node that depends on itself, in `graph` or a graph in it; NULL: none does. */
static struct CUgraphNode_st *find_circle(const struct CUgraph_st *graph) {
    struct CUgraphNode_st *stuck = NULL, **order = graph_order(graph, &stuck);

    free(order);
    for (size_t i = 0; i < graph->count && stuck == NULL; i++)
        for (size_t j = 0; j < graph->nodes[i]->graph_count && stuck == NULL; j++)
            stuck = find_circle(graph->nodes[i]->graphs[j]);
    return stuck;
}

static bool can_be_launched_by_kernels(CUgraphNodeType type) {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
           type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_GRAPH;
}

static CUresult check_device_launch(const struct CUgraph_st *graph, struct graph_failure *failure) {
    for (size_t i = 0; i < graph->count; i++) {
        if (can_be_launched_by_kernels(graph->nodes[i]->type))
            continue;
        *failure = (struct graph_failure){graph->nodes[i],
                                          CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED};
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return graph->count != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* "At most one executable graph in existence for that graph at a time." */
static bool is_taken(const struct CUgraph_st *graph) {
    const struct CUgraphExec_st *executable;

    if (!graph_has_memory_nodes(graph) && graph->conditional_count == 0)
        return false;
    LL_FOREACH(executables, executable)
    if (executable->graph->origin == graph->id)
        return true;
    return false;
}

/* A conditional's body, or a child graph that was moved: not the program's to instantiate. */
static bool is_owned_by_node(const struct CUgraph_st *graph) {
    return graph->was_moved || (graph->parent != NULL && graph->parent->conditional != NULL);
}

static bool has_unused_conditional(const struct CUgraph_st *graph) {
    for (size_t i = 0; i < graph->conditional_count; i++)
        if (!conditional_is_used(graph, graph->conditionals[i]))
            return true;
    return false;
}

static bool valid_flags(cuuint64_t flags) {
    const cuuint64_t device_launch = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH,
                     auto_free = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH,
                     upload = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                     priority = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

    return (flags & ~(device_launch | auto_free | upload | priority)) == 0 &&
           (flags & (device_launch | auto_free)) != (device_launch | auto_free);
}

static CUresult check(CUgraph handle, cuuint64_t flags, struct graph_failure *failure) {
    const struct CUgraph_st *graph = graph_find(handle);
    struct CUgraphNode_st *stuck;

    if (graph == NULL || graph_is_being_captured(graph) || is_owned_by_node(graph) ||
        !valid_flags(flags) || is_taken(graph))
        return CUDA_ERROR_INVALID_VALUE;
    stuck = find_circle(graph);
    if (stuck != NULL) {
        *failure = (struct graph_failure){stuck, CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE};
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (has_unused_conditional(graph)) {
        failure->reason = (CUgraphInstantiateResult)5; /* CONDITIONAL_HANDLE_UNUSED */
        return CUDA_ERROR_INVALID_VALUE;
    }
    return (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0
               ? check_device_launch(graph, failure)
               : CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, cuuint64_t flags,
                            struct graph_failure *failure) {
    struct CUgraphExec_st *executable;
    struct CUctx_st *context;
    CUresult result;

    *failure = (struct graph_failure){NULL, CUDA_GRAPH_INSTANTIATE_ERROR};
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = check(graph, flags, failure);
    if (result == CUDA_SUCCESS)
        result = object_memory_take(context->device);
    if (result == CUDA_SUCCESS) {
        executable = allocate_zeroed(sizeof *executable);
        executable->graph = graph_clone(graph);
        executable->device = context->device;
        executable->flags = flags & ~(cuuint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
        LL_PREPEND(executables, executable);
        *out = executable;
        failure->reason = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    }
    sim_unlock();
    return result;
}

static CUresult instantiate_logged(CUgraphExec *executable, CUgraph graph, CUgraphNode *error_node,
                                   char *log, size_t log_size) {
    struct graph_failure failure;
    CUresult result = instantiate(executable, graph, 0, &failure);

    if (log != NULL && log_size != 0)
        log[0] = '\0';
    if (error_node != NULL)
        *error_node = failure.node;
    return result;
}

SIM_EXPORT CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph,
                                       CUgraphNode *error_node, char *log, size_t log_size) {
    ENTER(cuGraphInstantiate);
    return instantiate_logged(executable, graph, error_node, log, log_size);
}

SIM_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph,
                                          CUgraphNode *error_node, char *log, size_t log_size) {
    ENTER(cuGraphInstantiate_v2);
    return instantiate_logged(executable, graph, error_node, log, log_size);
}

SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                                unsigned long long flags) {
    struct graph_failure failure;

    ENTER(cuGraphInstantiateWithFlags);
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        return CUDA_ERROR_INVALID_VALUE; /* there is no stream to do it in */
    return instantiate(executable, graph, flags, &failure);
}

static CUresult upload_once(struct CUgraphExec_st *executable) {
    CUresult result = executable->uploaded ? CUDA_SUCCESS : object_memory_take(executable->device);

    executable->uploaded = result == CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? graph_memory_upload(op_of(executable)) : result;
}

static CUresult upload(CUgraphExec handle, CUstream stream_of, enum null_stream null_stream) {
    struct CUgraphExec_st *executable;
    struct CUstream_st *stream;
    CUresult result;

    sim_lock();
    result = stream_current(stream_of, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = graph_exec_find(handle, &executable);
    if (result == CUDA_SUCCESS)
        result = upload_once(executable);
    sim_unlock();
    return result;
}

static CUresult destroy(CUgraphExec handle) {
    struct CUgraphExec_st *executable;
    CUresult result;

    sim_lock();
    result = graph_exec_find(handle, &executable);
    if (result == CUDA_SUCCESS) {
        LL_DELETE(executables, executable);
        object_memory_give(executable->device);
        if (executable->uploaded)
            object_memory_give(executable->device);
        work_drop(executable->last);
        forget_op(executable); /* [wait:graph-destroy-does-not] assumed */
        graph_dispose(executable->graph);
        free(executable);
    }
    sim_unlock();
    return result;
}

static CUresult instantiate_with(CUgraphExec *executable, CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *parameters,
                                 enum null_stream null_stream) {
    struct graph_failure failure;
    CUresult result;

    if (parameters == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = instantiate(executable, graph, parameters->flags, &failure);
    if (result == CUDA_SUCCESS && (parameters->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        result = upload(*executable, parameters->hUploadStream, null_stream);
    if (result != CUDA_SUCCESS && failure.reason == CUDA_GRAPH_INSTANTIATE_SUCCESS) {
        destroy(*executable);
        failure.reason = CUDA_GRAPH_INSTANTIATE_ERROR;
    }
    parameters->hErrNode_out = failure.node;
    parameters->result_out = failure.reason;
    return result;
}

EXPORT_FORMS(cuGraphInstantiateWithParams, _ptsz,
             (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
             instantiate_with(executable, graph, parameters, null_stream))

EXPORT_FORMS(cuGraphUpload, _ptsz, (CUgraphExec executable, CUstream stream),
             upload(executable, stream, null_stream))

SIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) {
    ENTER(cuGraphExecDestroy);
    return destroy(executable);
}

SIM_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags) {
    struct CUgraphExec_st *executable;
    CUresult result;

    ENTER(cuGraphExecGetFlags);
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = graph_exec_find(handle, &executable);
    if (result == CUDA_SUCCESS)
        *flags = executable->flags;
    sim_unlock();
    return result;
}

/* --- launches --- */

/* [order:graph-launches] cuda.h 21050 */
static CUresult submit(struct CUgraphExec_st *executable, struct CUstream_st *stream) {
    struct op *op = op_of(executable);
    CUresult result = capture_check_legacy(stream);
    struct work *work;

    if (result == CUDA_SUCCESS && !host_backing_promise(op))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        result = graph_op_check(op);
    if (result == CUDA_SUCCESS)
        result = graph_memory_launch(
            op, (executable->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0);
    if (result == CUDA_SUCCESS)
        result = graph_op_submit(op, stream, executable->last, &work);
    if (result != CUDA_SUCCESS)
        return result;
    graph_memory_submitted(op, &work->clock);
    work_drop(executable->last);
    executable->last = work;
    stream_go(stream);
    return CUDA_SUCCESS;
}

static CUresult launch_now(struct CUgraphExec_st *executable, struct CUstream_st *stream) {
    CUresult result = upload_once(executable);

    if (result == CUDA_SUCCESS)
        result = object_memory_launch(context_root(stream->context));
    return result == CUDA_SUCCESS ? submit(executable, stream) : result;
}

static CUresult launch(CUgraphExec handle, CUstream stream_of, enum null_stream null_stream) {
    struct CUgraphExec_st *executable;
    struct CUstream_st *stream;
    CUresult result;

    cost_spend(settings()->launch_ns);
    sim_lock();
    result = stream_current(stream_of, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        result = graph_exec_find(handle, &executable);
    if (result == CUDA_SUCCESS)
        result = stream->capture != NULL ? capture_add_graph(stream, executable->graph)
                                         : launch_now(executable, stream);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuGraphLaunch, _ptsz, (CUgraphExec executable, CUstream stream),
             launch(executable, stream, null_stream))
