/* Executable graphs: what instantiating a graph made of it. All below: lock held. */
#ifndef SIMCUDA_GRAPH_EXEC_H
#define SIMCUDA_GRAPH_EXEC_H

#include "graph.h"

/* Why a graph cannot be instantiated. */
struct graph_failure {
    struct CUgraphNode_st *node; /* NULL: no node's fault */
    CUgraphInstantiateResult reason;
};

/* INVALID_VALUE: there is none of this handle. */
CUresult graph_exec_find(CUgraphExec handle, struct CUgraphExec_st **executable);

/* The node of the executable graph's own copy that stands for a node of the program's; NULL: none
 * does. */
struct CUgraphNode_st *graph_exec_node(const struct CUgraphExec_st *executable, CUgraphNode node);

struct CUgraph_st *graph_exec_copy(const struct CUgraphExec_st *executable); /* its own */
cuuint64_t graph_exec_flags(const struct CUgraphExec_st *executable);

/* To be called when its copy was changed: launches to come do what that says. */
void graph_exec_changed(struct CUgraphExec_st *executable);

#endif
