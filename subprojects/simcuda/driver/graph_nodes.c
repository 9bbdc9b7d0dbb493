/* Nodes put into graphs by hand: the entry points that add them and tell what they do. */
#include "graph_nodes.h"
#include "context.h"
#include "graph_memory.h"
#include "graph_node.h"
#include "lock.h"

#include <stdlib.h>

static CUresult add(struct CUgraph_st *graph, const struct graph_node_set *after,
                    const CUgraphEdgeData *edges, const struct node_request *request,
                    struct CUgraphNode_st **node) {
    CUresult result = graph_check_nodes(graph, after);

    for (size_t i = 0; i < after->count && result == CUDA_SUCCESS; i++)
        if (!node_edge_is_valid(edges != NULL ? &edges[i] : NULL, after->nodes[i], request->type))
            result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = node_add(graph, request, node);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < after->count; i++)
        graph_add_edge(*node, after->nodes[i], edges != NULL ? &edges[i] : NULL);
    return CUDA_SUCCESS;
}

CUresult graph_nodes_add(CUgraphNode *out, CUgraph graph, const struct graph_node_set *after,
                         const CUgraphEdgeData *edges, const struct node_request *request) {
    sim_check_none();
    struct CUgraphNode_st *node;
    CUresult result;

    if (out == NULL || (after->nodes == NULL && after->count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = graph_find(graph) != NULL ? add(graph, after, edges, request, &node)
                                       : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = node; /* which may be where a dependency was */
    sim_unlock();
    return result;
}

static CUresult add_plain(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                          size_t count, struct node_request request) {
    return graph_nodes_add(out, graph, &(struct graph_node_set){(CUgraphNode *)dependencies, count},
                           NULL, &request);
}

CUDA_KERNEL_NODE_PARAMS_v2 graph_nodes_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *node) {
    return (CUDA_KERNEL_NODE_PARAMS_v2){.func = node->func,
                                        .gridDimX = node->gridDimX,
                                        .gridDimY = node->gridDimY,
                                        .gridDimZ = node->gridDimZ,
                                        .blockDimX = node->blockDimX,
                                        .blockDimY = node->blockDimY,
                                        .blockDimZ = node->blockDimZ,
                                        .sharedMemBytes = node->sharedMemBytes,
                                        .kernelParams = node->kernelParams,
                                        .extra = node->extra};
}

/* --- entry points that add --- */

SIM_EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph,
                                        const CUgraphNode *dependencies, size_t count) {
    ENTER(cuGraphAddEmptyNode);
    return add_plain(out, graph, dependencies, count,
                     (struct node_request){.type = CU_GRAPH_NODE_TYPE_EMPTY});
}

SIM_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph,
                                         const CUgraphNode *dependencies, size_t count,
                                         const CUDA_KERNEL_NODE_PARAMS_v1 *node) {
    ENTER(cuGraphAddKernelNode);
    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return add_plain(out, graph, dependencies, count,
                     (struct node_request){.type = CU_GRAPH_NODE_TYPE_KERNEL,
                                           .as.kernel = graph_nodes_kernel(node)});
}

SIM_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph,
                                            const CUgraphNode *dependencies, size_t count,
                                            const CUDA_KERNEL_NODE_PARAMS_v2 *node) {
    ENTER(cuGraphAddKernelNode_v2);
    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return add_plain(out, graph, dependencies, count,
                     (struct node_request){.type = CU_GRAPH_NODE_TYPE_KERNEL,
                                           .context = node->ctx,
                                           .as.kernel = *node});
}

SIM_EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph,
                                         const CUgraphNode *dependencies, size_t count,
                                         const CUDA_MEMCPY3D *node, CUcontext context) {
    ENTER(cuGraphAddMemcpyNode);
    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return add_plain(out, graph, dependencies, count,
                     (struct node_request){
                         .type = CU_GRAPH_NODE_TYPE_MEMCPY, .context = context, .as.copy = node});
}

SIM_EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph,
                                         const CUgraphNode *dependencies, size_t count,
                                         const CUDA_MEMSET_NODE_PARAMS_v1 *node,
                                         CUcontext context) {
    ENTER(cuGraphAddMemsetNode);
    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return add_plain(out, graph, dependencies, count,
                     (struct node_request){
                         .type = CU_GRAPH_NODE_TYPE_MEMSET, .context = context, .as.fill = *node});
}

SIM_EXPORT CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph,
                                       const CUgraphNode *dependencies, size_t count,
                                       const CUDA_HOST_NODE_PARAMS_v1 *node) {
    ENTER(cuGraphAddHostNode);
    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return add_plain(out, graph, dependencies, count,
                     (struct node_request){.type = CU_GRAPH_NODE_TYPE_HOST, .as.host = *node});
}

SIM_EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph,
                                             const CUgraphNode *dependencies, size_t count,
                                             CUgraph child) {
    ENTER(cuGraphAddChildGraphNode);
    return add_plain(
        out, graph, dependencies, count,
        (struct node_request){.type = CU_GRAPH_NODE_TYPE_GRAPH, .as.child = {child, false}});
}

SIM_EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph,
                                              const CUgraphNode *dependencies, size_t count,
                                              CUevent event) {
    ENTER(cuGraphAddEventRecordNode);
    return add_plain(
        out, graph, dependencies, count,
        (struct node_request){.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD, .as.event = event});
}

SIM_EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph,
                                            const CUgraphNode *dependencies, size_t count,
                                            CUevent event) {
    ENTER(cuGraphAddEventWaitNode);
    return add_plain(
        out, graph, dependencies, count,
        (struct node_request){.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT, .as.event = event});
}

SIM_EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph,
                                           const CUgraphNode *dependencies, size_t count,
                                           CUDA_MEM_ALLOC_NODE_PARAMS *node) {
    ENTER(cuGraphAddMemAllocNode);
    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return add_plain(out, graph, dependencies, count,
                     (struct node_request){.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                                           .as.allocation = {node, CALLER}});
}

SIM_EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph,
                                          const CUgraphNode *dependencies, size_t count,
                                          CUdeviceptr address) {
    ENTER(cuGraphAddMemFreeNode);
    return add_plain(
        out, graph, dependencies, count,
        (struct node_request){.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .as.freed = address});
}

/* --- entry points that tell --- */

/* INVALID_VALUE unless the handle is a node of the type. Lock held. */
static CUresult find(CUgraphNode handle, CUgraphNodeType type) {
    sim_check_held();
    const struct CUgraphNode_st *node = graph_find_node(handle);

    return node != NULL && node->type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Defines a function that tells something of a node of one type: `value` goes to *out. */
#define TELL(symbol, type, of, value)                                                              \
    SIM_EXPORT CUresult symbol(CUgraphNode node, of *out) {                                        \
        CUresult result;                                                                           \
                                                                                                   \
        ENTER(symbol);                                                                             \
        if (out == NULL)                                                                           \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        sim_lock();                                                                                \
        result = find(node, type);                                                                 \
        if (result == CUDA_SUCCESS)                                                                \
            *out = value;                                                                          \
        sim_unlock();                                                                              \
        return result;                                                                             \
    }

/* The first form knows functions only. */
static CUDA_KERNEL_NODE_PARAMS_v1 first_form(const struct kernel_call *call) {
    const CUDA_KERNEL_NODE_PARAMS_v2 *told = &call->told;

    return (CUDA_KERNEL_NODE_PARAMS_v1){.func = call->function,
                                        .gridDimX = told->gridDimX,
                                        .gridDimY = told->gridDimY,
                                        .gridDimZ = told->gridDimZ,
                                        .blockDimX = told->blockDimX,
                                        .blockDimY = told->blockDimY,
                                        .blockDimZ = told->blockDimZ,
                                        .sharedMemBytes = told->sharedMemBytes,
                                        .kernelParams = told->kernelParams,
                                        .extra = told->extra};
}

static CUDA_HOST_NODE_PARAMS_v1 host_told(const struct host_call *call) {
    return (CUDA_HOST_NODE_PARAMS_v1){.fn = call->function, .userData = call->data};
}

TELL(cuGraphKernelNodeGetParams, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS_v1,
     first_form(&node->op->as.kernel))
TELL(cuGraphKernelNodeGetParams_v2, CU_GRAPH_NODE_TYPE_KERNEL, CUDA_KERNEL_NODE_PARAMS_v2,
     node->op->as.kernel.told)
TELL(cuGraphMemcpyNodeGetParams, CU_GRAPH_NODE_TYPE_MEMCPY, CUDA_MEMCPY3D, node_copy_told(node->op))
TELL(cuGraphMemsetNodeGetParams, CU_GRAPH_NODE_TYPE_MEMSET, CUDA_MEMSET_NODE_PARAMS_v1,
     node_fill_told(node->op))
TELL(cuGraphHostNodeGetParams, CU_GRAPH_NODE_TYPE_HOST, CUDA_HOST_NODE_PARAMS_v1,
     host_told(&node->op->as.host))
TELL(cuGraphEventRecordNodeGetEvent, CU_GRAPH_NODE_TYPE_EVENT_RECORD, CUevent, node->op->as.event)
TELL(cuGraphEventWaitNodeGetEvent, CU_GRAPH_NODE_TYPE_WAIT_EVENT, CUevent, node->op->as.event)
TELL(cuGraphMemAllocNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_ALLOC, CUDA_MEM_ALLOC_NODE_PARAMS,
     graph_memory_told(node->op))
TELL(cuGraphMemFreeNodeGetParams, CU_GRAPH_NODE_TYPE_MEM_FREE, CUdeviceptr,
     graph_memory_address(node->op))
TELL(cuGraphChildGraphNodeGetGraph, CU_GRAPH_NODE_TYPE_GRAPH, CUgraph, node->graphs[0])

SIM_EXPORT CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphNodeGetType);
    sim_lock();
    if (type != NULL && graph_find_node(node) != NULL) {
        *type = node->type;
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}
