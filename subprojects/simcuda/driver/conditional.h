/* Conditional nodes of graphs, and the values that decide what they do. All below: lock held. */
#ifndef SIMCUDA_CONDITIONAL_H
#define SIMCUDA_CONDITIONAL_H

#include "context.h"
#include "op.h"

struct conditional;
struct CUgraph_st;
struct CUgraphNode_st;

struct conditional *conditional_keep(struct conditional *conditional);
void conditional_drop(struct conditional *conditional);

/* The one of a handle that was made for the graph, or for one that it is a part of; NULL: none. */
struct conditional *conditional_find(const struct CUgraph_st *graph, uint64_t handle);
bool conditional_is_of(const struct conditional *conditional, const struct CUctx_st *context);
struct CUctx_st *conditional_context(const struct conditional *conditional);
uint64_t conditional_handle(const struct conditional *conditional);

/* `graph` is to be one that the handle is used in. */
void conditional_attach(struct CUgraph_st *graph, struct conditional *conditional);

/* Whether a node in `graph`, or in a graph in it, has it. */
bool conditional_is_used(const struct CUgraph_st *graph, const struct conditional *conditional);

/* What the node does, with the operations of its bodies, which it takes. */
struct op *conditional_op(const struct CUgraphNode_st *node, struct op **bodies);

/* What gives the values that they begin with to all conditionals of a graph; NULL if it has none.
 */
struct op *conditional_defaults_op(const struct CUgraph_st *graph);

/* What a kernel does. False: there is no such handle. Lock not held. */
bool conditional_set(uint64_t handle, unsigned int value);

#endif
