/* Kernels put into graphs by hand. */
#include "context.h"
#include "graph.h"
#include "launch.h"
#include "lock.h"

#include <stdlib.h>

/* What the node is to do. kernel: in the function's place, where that is NULL. */
static CUresult make(const CUDA_KERNEL_NODE_PARAMS_v1 *node, CUkernel kernel, struct op **op) {
    struct CUctx_st *context;
    CUresult result = context_current(&context);

    if (result == CUDA_SUCCESS)
        result = launch_op(node->func != NULL ? node->func : (CUfunction)kernel,
                           context_root(context), node, op);
    return result;
}

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                    const CUDA_KERNEL_NODE_PARAMS_v1 *node, CUkernel kernel) {
    struct graph_node_set after = {.nodes = (CUgraphNode *)dependencies, .count = count};
    struct op *op;
    CUresult result = CUDA_SUCCESS;

    if (out == NULL || node == NULL || (dependencies == NULL && count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (graph_find(graph) == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        if (graph_find_node(dependencies[i]) == NULL)
            result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = make(node, kernel, &op);
    if (result == CUDA_SUCCESS) {
        *out = graph_add(graph, op, &after);
        op_drop(op);
    }
    sim_unlock();
    return result;
}

/* In the graph, or, where `executable` is not NULL, in what was made of it. */
static CUresult set(CUgraphNode handle, const CUgraphExec *executable,
                    const CUDA_KERNEL_NODE_PARAMS_v1 *node, CUkernel kernel) {
    struct op *op;
    CUresult result;

    if (node == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = graph_find_node(handle) == NULL ? CUDA_ERROR_INVALID_VALUE : make(node, kernel, &op);
    if (result == CUDA_SUCCESS && executable == NULL) {
        op_drop(handle->op);
        handle->op = op;
    } else if (result == CUDA_SUCCESS && !graph_exec_replace(*executable, handle, op)) {
        op_drop(op);
        result = CUDA_ERROR_INVALID_VALUE;
    }
    sim_unlock();
    return result;
}

/* The first version of the struct is the beginning of the second. */
static const CUDA_KERNEL_NODE_PARAMS_v1 *first(const CUDA_KERNEL_NODE_PARAMS_v2 *node) {
    return (const CUDA_KERNEL_NODE_PARAMS_v1 *)(const void *)node;
}

static CUkernel kernel_of(const CUDA_KERNEL_NODE_PARAMS_v2 *node) {
    return node == NULL ? NULL : node->kern;
}

SIM_EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph,
                                         const CUgraphNode *dependencies, size_t count,
                                         const CUDA_KERNEL_NODE_PARAMS_v1 *node) {
    ENTER(cuGraphAddKernelNode);
    return add(out, graph, dependencies, count, node, NULL);
}

SIM_EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph,
                                            const CUgraphNode *dependencies, size_t count,
                                            const CUDA_KERNEL_NODE_PARAMS_v2 *node) {
    ENTER(cuGraphAddKernelNode_v2);
    return add(out, graph, dependencies, count, first(node), kernel_of(node));
}

SIM_EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode handle,
                                               const CUDA_KERNEL_NODE_PARAMS_v1 *node) {
    ENTER(cuGraphKernelNodeSetParams);
    return set(handle, NULL, node, NULL);
}

SIM_EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle,
                                                  const CUDA_KERNEL_NODE_PARAMS_v2 *node) {
    ENTER(cuGraphKernelNodeSetParams_v2);
    return set(handle, NULL, first(node), kernel_of(node));
}

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec executable, CUgraphNode handle,
                                                   const CUDA_KERNEL_NODE_PARAMS_v1 *node) {
    ENTER(cuGraphExecKernelNodeSetParams);
    return set(handle, &executable, node, NULL);
}

SIM_EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec executable, CUgraphNode handle,
                                                      const CUDA_KERNEL_NODE_PARAMS_v2 *node) {
    ENTER(cuGraphExecKernelNodeSetParams_v2);
    return set(handle, &executable, first(node), kernel_of(node));
}
