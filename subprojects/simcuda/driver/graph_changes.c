/* The entry points that change nodes of one type, in a graph or in what was made of it. */
#include "entry.h"
#include "graph_exec.h"
#include "graph_nodes.h"
#include "lock.h"

static CUresult set_in_graph(struct CUgraphNode_st *node, const struct node_request *request) {
    struct op *op;
    CUresult result;

    if (request->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return node_change_child(node, request);
    result = node_change(node, request, &op);
    if (result == CUDA_SUCCESS)
        graph_set_op(node, op);
    return result;
}

static bool is_linear(const struct op *op) {
    return op->as.copy.rows == 1 && op->as.copy.slices == 1;
}

/* "Both the instantiation-time memory operands and the memory operands must be 1-dimensional." */
static bool is_allowed(const struct op *from, const struct op *to) {
    if (node_check_change(from, to) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return false;
    return from->node_type != CU_GRAPH_NODE_TYPE_MEMCPY || (is_linear(from) && is_linear(to));
}

static CUresult set_in_executable(struct CUgraphNode_st *node, CUgraphExec handle,
                                  const struct node_request *request) {
    struct CUgraphExec_st *executable;
    struct CUgraphNode_st *copy;
    struct op *op;
    CUresult result = graph_exec_find(handle, &executable);

    copy = result == CUDA_SUCCESS ? graph_exec_node(executable, node) : NULL;
    if (copy == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = node_change(copy, request, &op);
    if (result != CUDA_SUCCESS)
        return result;
    if (!is_allowed(copy->op, op)) {
        op_drop(op);
        return CUDA_ERROR_INVALID_VALUE;
    }
    graph_set_op(copy, op);
    graph_exec_changed(executable);
    return CUDA_SUCCESS;
}

CUresult graph_nodes_set(CUgraphNode node, const CUgraphExec *executable,
                         const struct node_request *request) {
    sim_check_none();
    CUresult result;

    sim_lock();
    if (graph_find_node(node) == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (executable == NULL)
        result = set_in_graph(node, request);
    else
        result = set_in_executable(node, *executable, request);
    sim_unlock();
    return result;
}

/* --- entry points --- */

static CUresult set_kernel(CUgraphNode node, const CUgraphExec *executable,
                           const CUDA_KERNEL_NODE_PARAMS_v2 *to) {
    if (to == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return graph_nodes_set(node, executable,
                           &(struct node_request){.type = CU_GRAPH_NODE_TYPE_KERNEL,
                                                  .context = to->ctx,
                                                  .as.kernel = *to});
}

static CUresult set_first_kernel(CUgraphNode node, const CUgraphExec *executable,
                                 const CUDA_KERNEL_NODE_PARAMS_v1 *to) {
    CUDA_KERNEL_NODE_PARAMS_v2 second;

    if (to == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    second = graph_nodes_kernel(to);
    return set_kernel(node, executable, &second);
}

SIM_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v1 *to) {
    ENTER(cuGraphKernelNodeSetParams);
    return set_first_kernel(node, NULL, to);
}

SIM_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS_v2 *to) {
    ENTER(cuGraphKernelNodeSetParams_v2);
    return set_kernel(node, NULL, to);
}

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                   const CUDA_KERNEL_NODE_PARAMS_v1 *to) {
    ENTER(cuGraphExecKernelNodeSetParams);
    return set_first_kernel(node, &executable, to);
}

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode node,
                                                      const CUDA_KERNEL_NODE_PARAMS_v2 *to) {
    ENTER(cuGraphExecKernelNodeSetParams_v2);
    return set_kernel(node, &executable, to);
}

static CUresult set_copy(CUgraphNode node, const CUgraphExec *executable, const CUDA_MEMCPY3D *to,
                         CUcontext context) {
    if (to == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return graph_nodes_set(node, executable,
                           &(struct node_request){.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                                  .context = context,
                                                  .as.copy = to});
}

SIM_EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *to) {
    ENTER(cuGraphMemcpyNodeSetParams);
    return set_copy(node, NULL, to, NULL);
}

SIM_EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                   const CUDA_MEMCPY3D *to, CUcontext context) {
    ENTER(cuGraphExecMemcpyNodeSetParams);
    return set_copy(node, &executable, to, context);
}

static CUresult set_fill(CUgraphNode node, const CUgraphExec *executable,
                         const CUDA_MEMSET_NODE_PARAMS_v1 *to, CUcontext context) {
    if (to == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return graph_nodes_set(node, executable,
                           &(struct node_request){.type = CU_GRAPH_NODE_TYPE_MEMSET,
                                                  .context = context,
                                                  .as.fill = *to});
}

SIM_EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode node,
                                               const CUDA_MEMSET_NODE_PARAMS_v1 *to) {
    ENTER(cuGraphMemsetNodeSetParams);
    return set_fill(node, NULL, to, NULL);
}

SIM_EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                   const CUDA_MEMSET_NODE_PARAMS_v1 *to,
                                                   CUcontext context) {
    ENTER(cuGraphExecMemsetNodeSetParams);
    return set_fill(node, &executable, to, context);
}

static CUresult set_host(CUgraphNode node, const CUgraphExec *executable,
                         const CUDA_HOST_NODE_PARAMS_v1 *to) {
    if (to == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return graph_nodes_set(node, executable,
                           &(struct node_request){.type = CU_GRAPH_NODE_TYPE_HOST, .as.host = *to});
}

SIM_EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS_v1 *to) {
    ENTER(cuGraphHostNodeSetParams);
    return set_host(node, NULL, to);
}

SIM_EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                 const CUDA_HOST_NODE_PARAMS_v1 *to) {
    ENTER(cuGraphExecHostNodeSetParams);
    return set_host(node, &executable, to);
}

static CUresult set_event(CUgraphNode node, const CUgraphExec *executable, CUgraphNodeType type,
                          CUevent event) {
    return graph_nodes_set(node, executable,
                           &(struct node_request){.type = type, .as.event = event});
}

SIM_EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
    ENTER(cuGraphEventRecordNodeSetEvent);
    return set_event(node, NULL, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

SIM_EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
    ENTER(cuGraphEventWaitNodeSetEvent);
    return set_event(node, NULL, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

SIM_EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec executable, CUgraphNode node,
                                                       CUevent event) {
    ENTER(cuGraphExecEventRecordNodeSetEvent);
    return set_event(node, &executable, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

SIM_EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec executable, CUgraphNode node,
                                                     CUevent event) {
    ENTER(cuGraphExecEventWaitNodeSetEvent);
    return set_event(node, &executable, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

/* --- nodes that are passed over --- */

/* "Currently only kernel, memset and memcpy nodes are supported." Lock held. */
static CUresult find_switch(CUgraphExec handle, CUgraphNode node,
                            struct CUgraphExec_st **executable, struct CUgraphNode_st **copy) {
    sim_check_held();
    CUresult result = graph_exec_find(handle, executable);

    *copy = result == CUDA_SUCCESS ? graph_exec_node(*executable, node) : NULL;
    return *copy != NULL && ((*copy)->type == CU_GRAPH_NODE_TYPE_KERNEL ||
                             (*copy)->type == CU_GRAPH_NODE_TYPE_MEMSET ||
                             (*copy)->type == CU_GRAPH_NODE_TYPE_MEMCPY)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

SIM_EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode node,
                                          unsigned int enabled) {
    struct CUgraphExec_st *executable;
    struct CUgraphNode_st *copy;
    CUresult result;

    ENTER(cuGraphNodeSetEnabled);
    sim_lock();
    result = find_switch(handle, node, &executable, &copy);
    if (result == CUDA_SUCCESS) {
        copy->disabled = enabled == 0;
        graph_exec_changed(executable);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode node,
                                          unsigned int *enabled) {
    struct CUgraphExec_st *executable;
    struct CUgraphNode_st *copy;
    CUresult result;

    ENTER(cuGraphNodeGetEnabled);
    if (enabled == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = find_switch(handle, node, &executable, &copy);
    if (result == CUDA_SUCCESS)
        *enabled = copy->disabled ? 0 : 1;
    sim_unlock();
    return result;
}
