#include "graph.h"

#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "graph_memory.h"
#include "host_backing.h"
#include "lock.h"
#include "object_memory.h"
#include "settings.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* An instantiated graph: one operation that runs all nodes. It takes memory when it is made and
 * again when it is first uploaded, which a launch does if the program has not. */
struct CUgraphExec_st {
    struct op *op;
    CUdevice device;
    bool uploaded;
    bool auto_free;    /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */
    struct work *last; /* its last launch, which the next one waits for; NULL when there was none */
    struct CUgraphExec_st *next;
};

static struct CUgraph_st *graphs; /* what programs hold handles of */
static struct CUgraphExec_st *executables;

void graph_set_clear(struct graph_node_set *set) {
    sim_check_held();
    free(set->nodes);
    set->nodes = NULL;
    set->count = 0;
}

void graph_set_merge(struct graph_node_set *into, const struct graph_node_set *from) {
    sim_check_held();
    for (size_t i = 0; i < from->count; i++) {
        bool present = false;

        for (size_t j = 0; j < into->count; j++)
            present = present || into->nodes[j] == from->nodes[i];
        if (present)
            continue;
        into->nodes = allocate_again(into->nodes, (into->count + 1) * sizeof(void *));
        into->nodes[into->count++] = from->nodes[i];
    }
}

void graph_set_copy(struct graph_node_set *to, const struct graph_node_set *from) {
    sim_check_held();
    *to = (struct graph_node_set){0};
    graph_set_merge(to, from);
}

struct CUgraph_st *graph_create(void) {
    sim_check_held();
    return allocate_zeroed(sizeof(struct CUgraph_st));
}

void graph_publish(struct CUgraph_st *graph) {
    sim_check_held();
    graph->owned_by_program = true;
    LL_PREPEND(graphs, graph);
}

static void drop_nodes(struct CUgraph_st *graph) {
    for (size_t i = 0; i < graph->count; i++) {
        op_drop(graph->nodes[i]->op);
        free(graph->nodes[i]->dependencies);
        free(graph->nodes[i]);
    }
    free(graph->nodes);
}

void graph_dispose(struct CUgraph_st *graph) {
    sim_check_held();
    if (graph->owned_by_program)
        LL_DELETE(graphs, graph);
    drop_nodes(graph);
    free(graph);
}

struct CUgraph_st *graph_replace(struct CUgraph_st *graph, struct CUgraph_st *by) {
    sim_check_held();
    drop_nodes(graph);
    graph->nodes = by->nodes;
    graph->count = by->count;
    free(by);
    return graph;
}

struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, struct op *op,
                                 const struct graph_node_set *after) {
    sim_check_held();
    struct CUgraphNode_st *node = allocate_zeroed(sizeof *node);
    struct graph_node_set dependencies;

    graph_set_copy(&dependencies, after);
    node->op = op_keep(op);
    node->index = graph->count;
    node->dependencies = dependencies.nodes;
    node->dependency_count = dependencies.count;
    graph->nodes = allocate_again(graph->nodes, (graph->count + 1) * sizeof(void *));
    graph->nodes[graph->count++] = node;
    return node;
}

bool graph_precedes(const struct CUgraph_st *graph, const struct graph_node_set *set,
                    const struct graph_node_set *ends) {
    sim_check_held();
    bool *before = allocate_zeroed(graph->count * sizeof *before + 1);
    bool all = true;

    for (size_t i = 0; i < ends->count; i++)
        before[ends->nodes[i]->index] = true;
    for (size_t i = graph->count; i-- != 0;)
        for (size_t j = 0; before[i] && j < graph->nodes[i]->dependency_count; j++)
            before[graph->nodes[i]->dependencies[j]->index] = true;
    for (size_t i = 0; i < set->count; i++)
        all = all && before[set->nodes[i]->index];
    free(before);
    return all;
}

struct CUgraph_st *graph_find(CUgraph handle) {
    sim_check_held();
    struct CUgraph_st *graph;

    LL_FOREACH(graphs, graph)
    if (graph == handle)
        return graph;
    return NULL;
}

static struct CUgraphExec_st *find_executable(CUgraphExec handle) {
    struct CUgraphExec_st *executable;

    LL_FOREACH(executables, executable)
    if (executable == handle)
        return executable;
    return NULL;
}

struct CUgraphNode_st *graph_find_node(CUgraphNode handle) {
    sim_check_held();
    struct CUgraph_st *graph;

    LL_FOREACH(graphs, graph)
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i] == handle)
            return handle;
    return NULL;
}

bool graph_exec_replace(CUgraphExec handle, const struct CUgraphNode_st *node, struct op *op) {
    sim_check_held();
    struct CUgraphExec_st *executable = find_executable(handle);
    struct op *made;

    if (executable == NULL || node->index >= executable->op->child_count)
        return false;
    made = op_create(executable->op->name, executable->op->run); /* launches keep the other one */
    made->calls_host = executable->op->calls_host;
    made->children = allocate_zeroed(executable->op->child_count * sizeof(void *));
    for (size_t i = 0; i < executable->op->child_count; i++)
        made->children[made->child_count++] =
            i == node->index ? op : op_keep(executable->op->children[i]);
    op_drop(executable->op);
    executable->op = made;
    return true;
}

/* One after another, in the order of recording: [order:graph-nodes] assumed, as dependencies allow
 * it. */
static CUresult run_children(struct op *op) {
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < op->child_count && result == CUDA_SUCCESS; i++)
        result = op->children[i]->run(op->children[i]);
    return result;
}

/* --- entry points --- */

SIM_EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags) {
    ENTER(cuGraphCreate);
    if (graph == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    *graph = graph_create();
    graph_publish(*graph);
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
    CUresult result = CUDA_SUCCESS;

    ENTER(cuGraphDestroy);
    sim_lock();
    if (graph_find(graph) == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        graph_dispose(graph);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    CUresult result = CUDA_SUCCESS;

    ENTER(cuGraphGetNodes);
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (graph_find(graph) == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        for (size_t i = 0; nodes != NULL && i < *count; i++)
            nodes[i] = i < graph->count ? graph->nodes[i] : NULL;
        if (nodes == NULL || *count > graph->count)
            *count = graph->count;
    }
    sim_unlock();
    return result;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    struct CUgraphExec_st *executable;
    struct CUctx_st *context;
    CUresult result;

    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS && graph_find(graph) == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = object_memory_take(context->device);
    if (result == CUDA_SUCCESS) {
        struct op *op = op_create("graph", run_children);

        op->children = allocate_zeroed(graph->count * sizeof(void *) + 1);
        for (size_t i = 0; i < graph->count; i++) {
            op->children[op->child_count++] = op_keep(graph->nodes[i]->op);
            op->calls_host = op->calls_host || graph->nodes[i]->op->calls_host;
        }
        executable = allocate_zeroed(sizeof *executable);
        executable->op = op;
        executable->device = context->device;
        executable->auto_free = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
        LL_PREPEND(executables, executable);
        *out = executable;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphInstantiate(CUgraphExec *executable, CUgraph graph,
                                       CUgraphNode *error_node, char *log, size_t log_size) {
    ENTER(cuGraphInstantiate);
    (void)error_node;
    if (log != NULL && log_size != 0)
        log[0] = '\0';
    return instantiate(executable, graph, 0);
}

SIM_EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph,
                                          CUgraphNode *error_node, char *log, size_t log_size) {
    ENTER(cuGraphInstantiate_v2);
    (void)error_node;
    if (log != NULL && log_size != 0)
        log[0] = '\0';
    return instantiate(executable, graph, 0);
}

SIM_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                                unsigned long long flags) {
    ENTER(cuGraphInstantiateWithFlags);
    return instantiate(executable, graph, flags);
}

static CUresult instantiate_with(CUgraphExec *executable, CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *parameters) {
    CUresult result;

    if (parameters == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = instantiate(executable, graph, parameters->flags);
    parameters->hErrNode_out = NULL;
    parameters->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

EXPORT_FORMS(cuGraphInstantiateWithParams, _ptsz,
             (CUgraphExec * executable, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *parameters),
             ((void)null_stream, instantiate_with(executable, graph, parameters)))

static CUresult upload_once(struct CUgraphExec_st *executable) {
    CUresult result = executable->uploaded ? CUDA_SUCCESS : object_memory_take(executable->device);

    executable->uploaded = result == CUDA_SUCCESS;
    return result == CUDA_SUCCESS ? graph_memory_upload(executable->op) : result;
}

static CUresult upload(CUgraphExec executable, CUstream handle, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && find_executable(executable) == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = upload_once(executable);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuGraphUpload, _ptsz, (CUgraphExec executable, CUstream stream),
             upload(executable, stream, null_stream))

/* [order:graph-launches] cuda.h 21050 */
static CUresult submit(struct CUgraphExec_st *executable, struct CUstream_st *stream) {
    CUresult result = capture_check_legacy(stream);
    struct work *work;

    if (result == CUDA_SUCCESS && stream->capture == NULL && !host_backing_promise(executable->op))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS && stream->capture == NULL)
        result = graph_memory_launch(executable->op, executable->auto_free);
    if (result == CUDA_SUCCESS)
        result = stream_submit(stream, executable->op, executable->last, &work);
    if (result != CUDA_SUCCESS || work == NULL)
        return result;
    graph_memory_submitted(executable->op, &work->clock);
    work_drop(executable->last);
    executable->last = work;
    stream_go(stream);
    return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec executable, CUstream handle, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    cost_spend(settings()->launch_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && find_executable(executable) == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && stream->capture == NULL)
        result = upload_once(executable);
    if (result == CUDA_SUCCESS && stream->capture == NULL)
        result = object_memory_launch(context_root(stream->context));
    if (result == CUDA_SUCCESS)
        result = submit(executable, stream);
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuGraphLaunch, _ptsz, (CUgraphExec executable, CUstream stream),
             launch(executable, stream, null_stream))

SIM_EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) {
    CUresult result = CUDA_SUCCESS;

    ENTER(cuGraphExecDestroy);
    sim_lock();
    if (find_executable(executable) == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        LL_DELETE(executables, executable);
        object_memory_give(executable->device);
        if (executable->uploaded)
            object_memory_give(executable->device);
        work_drop(executable->last);
        op_drop(
            executable->op); /* launches under way keep it: [wait:graph-destroy-does-not] assumed */
        free(executable);
    }
    sim_unlock();
    return result;
}
