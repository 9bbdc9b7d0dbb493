/* Nodes of graphs as the program describes them, whatever the function and the form of struct. All
 * below: lock held. */
#ifndef SIMCUDA_GRAPH_NODE_H
#define SIMCUDA_GRAPH_NODE_H

#include "graph.h"

/* What a node is to do. `type` says which member is set; an empty node has none. */
struct node_request {
    CUgraphNodeType type;
    CUcontext context; /* where it runs; NULL: in the current one */
    union {
        CUDA_KERNEL_NODE_PARAMS_v2 kernel;
        const CUDA_MEMCPY3D *copy;
        CUDA_MEMSET_NODE_PARAMS_v1 fill;
        CUDA_HOST_NODE_PARAMS_v1 host;
        CUevent event;
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
        CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals;
        CUDA_EXT_SEM_WAIT_NODE_PARAMS waits;
        struct {
            CUDA_MEM_ALLOC_NODE_PARAMS *parameters; /* the address is set there */
            uintptr_t site;
        } allocation;
        CUdeviceptr freed;
        struct {
            CUgraph graph;
            bool is_moved; /* instead of copied */
        } child;
        struct {
            uint64_t handle;
            unsigned int type, size;
        } conditional;
    } as;
};

/* Adds a node without edges. */
CUresult node_add(struct CUgraph_st *graph, const struct node_request *request,
                  struct CUgraphNode_st **node);

/* What a node is to do instead of what it does: an operation. NOT_SUPPORTED for nodes that are
 * none, of memory, graphs and conditions. */
CUresult node_change(const struct CUgraphNode_st *node, const struct node_request *request,
                     struct op **op);

/* Gives a child graph node, not of an executable graph, another graph. */
CUresult node_change_child(struct CUgraphNode_st *node, const struct node_request *request);

/* Whether an executable graph's node may do `to` where it does `from`, both of one type. */
CUgraphExecUpdateResult node_check_change(const struct op *from, const struct op *to);

/* What a copy's or fill's node answers. */
CUDA_MEMCPY3D node_copy_told(const struct op *op);
CUDA_MEMSET_NODE_PARAMS_v1 node_fill_told(const struct op *op);

/* Whether an edge of the data can lead from one node to another. NULL is a plain one's. */
bool node_edge_is_valid(const CUgraphEdgeData *data, const struct CUgraphNode_st *from,
                        CUgraphNodeType to);

#endif
