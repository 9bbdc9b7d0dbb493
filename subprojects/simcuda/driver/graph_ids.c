/* What graphs and nodes are called by tools: numbers that stand in what cuGraphDebugDotPrint
 * writes, too. */
#include "entry.h"
#include "graph_exec.h"
#include "lock.h"

SIM_EXPORT CUresult cuGraphGetId(CUgraph graph, unsigned int *id) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphGetId);
    sim_lock();
    if (id != NULL && graph_find(graph) != NULL) {
        *id = (unsigned int)graph->id;
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphExecGetId(CUgraphExec handle, unsigned int *id) {
    struct CUgraphExec_st *executable;
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphExecGetId);
    sim_lock();
    if (id != NULL && graph_exec_find(handle, &executable) == CUDA_SUCCESS) {
        *id = (unsigned int)graph_exec_copy(executable)->id;
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

/* Defines a function that answers something of a node. */
#define ANSWER(symbol, of, value)                                                                  \
    SIM_EXPORT CUresult symbol(CUgraphNode handle, of *out) {                                      \
        struct CUgraphNode_st *node;                                                               \
                                                                                                   \
        ENTER(symbol);                                                                             \
        if (out == NULL)                                                                           \
            return CUDA_ERROR_INVALID_VALUE;                                                       \
        sim_lock();                                                                                \
        node = graph_find_node(handle);                                                            \
        if (node != NULL)                                                                          \
            *out = value;                                                                          \
        sim_unlock();                                                                              \
        return node != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;                             \
    }

ANSWER(cuGraphNodeGetContainingGraph, CUgraph, node->graph)
ANSWER(cuGraphNodeGetLocalId, unsigned int, (unsigned int)node->index)
ANSWER(cuGraphNodeGetToolsId, unsigned long long, node->id)
