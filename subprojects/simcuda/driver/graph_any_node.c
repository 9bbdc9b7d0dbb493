/* The entry points for nodes of any type, which CUgraphNodeParams describes. */
#include "entry.h"
#include "graph_nodes.h"
#include "graph_update.h"
#include "lock.h"

#include <string.h>

#if CUDA_VERSION >= 12030 /* older headers lack the types */
static bool is_zero(const void *bytes, size_t size) {
    const unsigned char *at = bytes;

    for (size_t i = 0; i < size; i++)
        if (at[i] != 0)
            return false;
    return true;
}

static struct node_request of_kernel(const CUDA_KERNEL_NODE_PARAMS_v3 *of) {
    struct node_request request = {.type = CU_GRAPH_NODE_TYPE_KERNEL, .context = of->ctx};

    _Static_assert(sizeof request.as.kernel == sizeof *of, "the third form is the second");
    memcpy(&request.as.kernel, of, sizeof *of);
    return request;
}

static struct node_request of_fill(const CUDA_MEMSET_NODE_PARAMS_v2 *of) {
    return (struct node_request){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                 .context = of->ctx,
                                 .as.fill = {.dst = of->dst,
                                             .pitch = of->pitch,
                                             .value = of->value,
                                             .elementSize = of->elementSize,
                                             .width = of->width,
                                             .height = of->height}};
}

static struct node_request of_child(const CUDA_CHILD_GRAPH_NODE_PARAMS *of) {
    bool is_moved = false;

#if CUDA_VERSION >= 12090
    is_moved = of->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
#endif
    return (struct node_request){.type = CU_GRAPH_NODE_TYPE_GRAPH,
                                 .as.child = {of->graph, is_moved}};
}

static struct node_request of_conditional(const CUDA_CONDITIONAL_NODE_PARAMS *of) {
    return (struct node_request){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                                 .context = of->ctx,
                                 .as.conditional = {of->handle, of->type, of->size}};
}

/* `allocation` is what a node of that type writes to. A type that is not simulated has nothing but
 * the type. */
static struct node_request request_of(const CUgraphNodeParams *of,
                                      CUDA_MEM_ALLOC_NODE_PARAMS *allocation, uintptr_t site) {
    struct node_request request = {.type = of->type};

    switch (of->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return of_kernel(&of->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        request.context = of->memcpy.copyCtx;
        request.as.copy = &of->memcpy.copyParams;
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return of_fill(&of->memset);
    case CU_GRAPH_NODE_TYPE_HOST:
        request.as.host =
            (CUDA_HOST_NODE_PARAMS_v1){.fn = of->host.fn, .userData = of->host.userData};
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return of_child(&of->graph);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        request.as.event = of->eventWait.event;
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        request.as.event = of->eventRecord.event;
        break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        request.as.signals = (CUDA_EXT_SEM_SIGNAL_NODE_PARAMS){of->extSemSignal.extSemArray,
                                                               of->extSemSignal.paramsArray,
                                                               of->extSemSignal.numExtSems};
        break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        request.as.waits = (CUDA_EXT_SEM_WAIT_NODE_PARAMS){
            of->extSemWait.extSemArray, of->extSemWait.paramsArray, of->extSemWait.numExtSems};
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        request.as.batch = (CUDA_BATCH_MEM_OP_NODE_PARAMS){of->memOp.ctx, of->memOp.count,
                                                           of->memOp.paramArray, of->memOp.flags};
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        request.as.allocation.parameters = allocation;
        request.as.allocation.site = site;
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        request.as.freed = of->free.dptr;
        break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return of_conditional(&of->conditional);
    default:
        break;
    }
    return request;
}

static bool is_valid(const CUgraphNodeParams *of) {
    return of != NULL && is_zero(of->reserved0, sizeof of->reserved0) && of->reserved2 == 0 &&
           (of->type != CU_GRAPH_NODE_TYPE_MEMCPY ||
            (of->memcpy.flags == 0 && of->memcpy.reserved == 0));
}

/* The bodies' array is the node's. */
static void tell_bodies(CUgraphNode node, CUgraphNodeParams *of) {
    sim_lock();
    if (graph_find_node(node) != NULL)
        of->conditional.phGraph_out = node->graphs;
    sim_unlock();
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                    const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *of,
                    uintptr_t site) {
    const struct graph_node_set after = {(CUgraphNode *)dependencies, count};
    CUDA_MEM_ALLOC_NODE_PARAMS allocation;
    struct node_request request;
    CUresult result;

    if (!is_valid(of))
        return CUDA_ERROR_INVALID_VALUE;
    _Static_assert(sizeof allocation == sizeof of->alloc, "the second form is the first");
    memcpy(&allocation, &of->alloc, sizeof allocation);
    request = request_of(of, &allocation, site);
    result = graph_nodes_add(out, graph, &after, edges, &request);
    if (result == CUDA_SUCCESS && of->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        of->alloc.dptr = allocation.dptr;
    else if (result == CUDA_SUCCESS && of->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        tell_bodies(*out, of);
    return result;
}

SIM_EXPORT CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                                   size_t count, CUgraphNodeParams *of) {
    ENTER(cuGraphAddNode);
    return add(out, graph, dependencies, NULL, count, of, CALLER);
}

SIM_EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph,
                                      const CUgraphNode *dependencies, const CUgraphEdgeData *edges,
                                      size_t count, CUgraphNodeParams *of) {
    ENTER(cuGraphAddNode_v2);
    return add(out, graph, dependencies, edges, count, of, CALLER);
}

static CUresult set(CUgraphNode node, const CUgraphExec *executable, const CUgraphNodeParams *of) {
    struct node_request request;

    if (!is_valid(of))
        return CUDA_ERROR_INVALID_VALUE;
    request = request_of(of, NULL, 0);
    return graph_nodes_set(node, executable, &request);
}

SIM_EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *of) {
    ENTER(cuGraphNodeSetParams);
    return set(node, NULL, of);
}

SIM_EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                             CUgraphNodeParams *of) {
    ENTER(cuGraphExecNodeSetParams);
    if (of != NULL && of->type == CU_GRAPH_NODE_TYPE_GRAPH && is_valid(of))
        return graph_update_child(executable, node, of->graph.graph);
    return set(node, &executable, of);
}
#endif
