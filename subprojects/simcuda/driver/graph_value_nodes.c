/* The entry points for nodes of stream memory operations and of external semaphores. */
#include "entry.h"
#include "graph_nodes.h"
#include "lock.h"

/* Defines what there is for nodes of one type: a function that adds one, one that tells what it
 * does, one that changes it, and one that changes what stands for it in an executable graph.
 * `member` is that of a request, and of what a node answers. */
#define VALUE_NODE(type_of, parameters, member, add, get, set, set_in_executable)                  \
    SIM_EXPORT CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,      \
                            size_t count, const parameters *node) {                                \
        ENTER(add);                                                                                \
        if (node == NULL)                                                                          \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        return graph_nodes_add(out, graph,                                                         \
                               &(struct graph_node_set){(CUgraphNode *)dependencies, count}, NULL, \
                               &(struct node_request){.type = (type_of), .as.member = *node});     \
    }                                                                                              \
                                                                                                   \
    SIM_EXPORT CUresult get(CUgraphNode handle, parameters *told) {                                \
        const struct CUgraphNode_st *node;                                                         \
        CUresult result = CUDA_ERROR_INVALID_VALUE;                                                \
                                                                                                   \
        ENTER(get);                                                                                \
        sim_lock();                                                                                \
        node = graph_find_node(handle);                                                            \
        if (told != NULL && node != NULL && node->type == (type_of)) {                             \
            *told = node->op->as.values.told.member;                                               \
            result = CUDA_SUCCESS;                                                                 \
        }                                                                                          \
        sim_unlock();                                                                              \
        return result;                                                                             \
    }                                                                                              \
                                                                                                   \
    SIM_EXPORT CUresult set(CUgraphNode node, const parameters *to) {                              \
        ENTER(set);                                                                                \
        if (to == NULL)                                                                            \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        return graph_nodes_set(node, NULL,                                                         \
                               &(struct node_request){.type = (type_of), .as.member = *to});       \
    }                                                                                              \
                                                                                                   \
    SIM_EXPORT CUresult set_in_executable(CUgraphExec executable, CUgraphNode node,                \
                                          const parameters *to) {                                  \
        ENTER(set_in_executable);                                                                  \
        if (to == NULL)                                                                            \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        return graph_nodes_set(node, &executable,                                                  \
                               &(struct node_request){.type = (type_of), .as.member = *to});       \
    }

VALUE_NODE(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, CUDA_BATCH_MEM_OP_NODE_PARAMS, batch,
           cuGraphAddBatchMemOpNode, cuGraphBatchMemOpNodeGetParams, cuGraphBatchMemOpNodeSetParams,
           cuGraphExecBatchMemOpNodeSetParams)
VALUE_NODE(CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, signals,
           cuGraphAddExternalSemaphoresSignalNode, cuGraphExternalSemaphoresSignalNodeGetParams,
           cuGraphExternalSemaphoresSignalNodeSetParams,
           cuGraphExecExternalSemaphoresSignalNodeSetParams)
VALUE_NODE(CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT, CUDA_EXT_SEM_WAIT_NODE_PARAMS, waits,
           cuGraphAddExternalSemaphoresWaitNode, cuGraphExternalSemaphoresWaitNodeGetParams,
           cuGraphExternalSemaphoresWaitNodeSetParams,
           cuGraphExecExternalSemaphoresWaitNodeSetParams)
