/* Graphs: operations and their order, recorded by a capture. All below: lock held. */
#ifndef SIMCUDA_GRAPH_H
#define SIMCUDA_GRAPH_H

#include "op.h"

/* Invariant: every dependency is an earlier node of the same graph, so that creation order is an
 * order of execution. */
struct CUgraphNode_st {
    struct op *op;
    size_t index;
    struct CUgraphNode_st **dependencies;
    size_t dependency_count;
};

struct CUgraph_st {
    struct CUgraphNode_st **nodes;
    size_t count;
    bool owned_by_program;   /* a handle that cuGraphDestroy takes */
    struct CUgraph_st *next; /* the next graph whose handle the program owns */
};

/* Nodes that something depends on; owns the array only. */
struct graph_node_set {
    struct CUgraphNode_st **nodes;
    size_t count;
};

void graph_set_copy(struct graph_node_set *to, const struct graph_node_set *from);
void graph_set_merge(struct graph_node_set *into, const struct graph_node_set *from);
void graph_set_clear(struct graph_node_set *set);

struct CUgraph_st *graph_create(void);
void graph_dispose(struct CUgraph_st *graph);
void graph_publish(struct CUgraph_st *graph); /* the program has its handle from now on */
/* `graph` gets the nodes of `by`, which is no more. Returns `graph`. */
struct CUgraph_st *graph_replace(struct CUgraph_st *graph, struct CUgraph_st *by);
struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, struct op *op,
                                 const struct graph_node_set *after);

struct CUgraph_st *graph_find(CUgraph handle); /* NULL: the program has none of this handle */
/* The node of one of the program's graphs; NULL: none of this handle. */
struct CUgraphNode_st *graph_find_node(CUgraphNode handle);
/* From its next launch on the executable graph does `op`, which it takes, in the node's place.
 * False: it has no such node. */
bool graph_exec_replace(CUgraphExec handle, const struct CUgraphNode_st *node, struct op *op);

/* Whether every node of `set` is, or comes before, one of `ends`. */
bool graph_precedes(const struct CUgraph_st *graph, const struct graph_node_set *set,
                    const struct graph_node_set *ends);

#endif
