/* What the functions for nodes of one type and those for nodes of any type share. All below: lock
 * not held. */
#ifndef SIMCUDA_GRAPH_NODES_H
#define SIMCUDA_GRAPH_NODES_H

#include "graph_node.h"

/* Adds a node behind others; `edges`, where it is not NULL, has as many elements as `after`. */
CUresult graph_nodes_add(CUgraphNode *out, CUgraph graph, const struct graph_node_set *after,
                         const CUgraphEdgeData *edges, const struct node_request *request);

/* Changes a node of a graph, or, where `executable` is not NULL, what stands for it there. */
CUresult graph_nodes_set(CUgraphNode node, const CUgraphExec *executable,
                         const struct node_request *request);

/* Lock not needed. */
CUDA_KERNEL_NODE_PARAMS_v2 graph_nodes_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *node);

#endif
