/* Graphs: operations and their order, put together by the program or recorded by a capture. All
 * below: lock held. */
#ifndef SIMCUDA_GRAPH_H
#define SIMCUDA_GRAPH_H

#include "op.h"
#include "user_object.h"

#include <uthash.h>

struct conditional;
struct kernel_attributes;

/* CU_GRAPH_NODE_TYPE_CONDITIONAL, which older headers lack. */
#define NODE_TYPE_CONDITIONAL ((CUgraphNodeType)13)

struct graph_edge {
    struct CUgraphNode_st *from;
    CUgraphEdgeData data;
};

/* Invariant: every edge comes from another node of the same graph; graph->nodes[index] is this one.
 * What it does is `op`, or, where that is NULL, what its graphs do: that of a child graph node, or
 * the bodies of a conditional one. An empty node has neither. */
struct CUgraphNode_st {
    CUgraphNodeType type;
    struct CUgraph_st *graph;
    uint64_t id;
    uint64_t origin; /* the id of the node that it was copied from, 0 if it was not */
    size_t index;
    struct op *op;
    struct graph_edge *edges;
    size_t edge_count;
    struct CUgraph_st **graphs; /* owned; each has this node as its parent */
    size_t graph_count;
    struct conditional *conditional; /* a reference; NULL but for a conditional node */
    unsigned int conditional_type;
    struct kernel_attributes *attributes; /* owned; NULL: none was set */
    bool disabled;                        /* only in an executable graph */
    struct CUgraphNode_st *self;          /* the key of by_handle */
    UT_hash_handle by_handle;
};

/* A program has handles of those that it owns, of those that are captured into, and of those in the
 * nodes of both: not of the copies that executable graphs have. */
struct CUgraph_st {
    struct CUgraphNode_st **nodes; /* in the order of their creation */
    size_t count, room;
    uint64_t id;
    uint64_t origin;               /* the id of the graph that it was copied from, or 0 */
    struct CUgraphNode_st *parent; /* the node that it is a part of, or NULL */
    bool owned_by_program;         /* a handle that cuGraphDestroy takes */
    bool is_captured;              /* a capture adds nodes to it */
    bool was_moved;                /* into the node, instead of a copy of it */
    struct user_references objects;
    struct conditional **conditionals; /* references: those whose handles were made for it */
    size_t conditional_count;
    struct CUgraph_st *self; /* the key of by_handle */
    UT_hash_handle by_handle;
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
struct CUgraph_st *graph_clone(const struct CUgraph_st *graph);
void graph_dispose(struct CUgraph_st *graph);
void graph_publish(struct CUgraph_st *graph); /* the program owns its handle from now on */
/* `graph` gets the nodes of `by`, which is no more. Returns `graph`. */
struct CUgraph_st *graph_replace(struct CUgraph_st *graph, struct CUgraph_st *by);

/* `graph` gets the user objects and conditionals of `from` in the place of its own. */
void graph_take_references(struct CUgraph_st *graph, const struct CUgraph_st *from);

/* Adds a node that does `op`, of which it takes a reference of its own; NULL: nothing. */
struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, CUgraphNodeType type, struct op *op);
void graph_add_edge(struct CUgraphNode_st *to, struct CUgraphNode_st *from,
                    const CUgraphEdgeData *data);                        /* NULL: a plain one */
void graph_adopt(struct CUgraphNode_st *node, struct CUgraph_st *graph); /* as one of its graphs */
void graph_remove(struct CUgraphNode_st *node);
void graph_set_op(struct CUgraphNode_st *node, struct op *op); /* takes the reference */

bool graph_is_being_captured(const struct CUgraph_st *graph); /* or one in it */

struct CUgraph_st *graph_find(CUgraph handle); /* NULL: the program has none of this handle */
/* The node of one of the program's graphs; NULL: none of this handle. */
struct CUgraphNode_st *graph_find_node(CUgraphNode handle);

/* The node in `graph`, or in a graph in it, that was copied from the one of that id, or NULL. */
struct CUgraphNode_st *graph_find_copy(const struct CUgraph_st *graph, uint64_t origin);

/* INVALID_VALUE or NOT_SUPPORTED where the graph can have no node of the type. */
CUresult graph_check_type(const struct CUgraph_st *graph, CUgraphNodeType type);

/* INVALID_VALUE unless all are different nodes of the graph. */
CUresult graph_check_nodes(const struct CUgraph_st *graph, const struct graph_node_set *set);

/* Whether it has neither memory nor conditional nodes. */
bool graph_can_be_copied(const struct CUgraph_st *graph);

/* Whether a node of such a type is in `graph`, or in a graph in it. */
bool graph_has(const struct CUgraph_st *graph, CUgraphNodeType type);
bool graph_has_memory_nodes(const struct CUgraph_st *graph);

/* All nodes in an order that their dependencies allow, that of their creation where they do; the
 * array is the caller's. NULL: they depend on one another in a circle, of which *stuck is one. */
struct CUgraphNode_st **graph_order(const struct CUgraph_st *graph, struct CUgraphNode_st **stuck);

/* Whether every node of `set` is, or comes before, one of `ends`. */
bool graph_precedes(const struct CUgraph_st *graph, const struct graph_node_set *set,
                    const struct graph_node_set *ends);

#endif
