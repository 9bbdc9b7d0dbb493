/* What a graph does when it is launched, as one operation. All below: lock held. */
#ifndef SIMCUDA_GRAPH_OP_H
#define SIMCUDA_GRAPH_OP_H

#include "graph.h"
#include "stream.h"

/* Does what the nodes do, one after another, and has the references to user objects until it is no
 * more. The graph has no circles. */
struct op *graph_op(const struct CUgraph_st *graph);

/* Why it cannot be launched now: an event of its nodes is none, or is in a capture. */
CUresult graph_op_check(const struct op *op);

/* Submits it, which can be launched, behind `after`, which may be NULL. *work is its last work, as
 * of stream_submit. */
CUresult graph_op_submit(struct op *op, struct CUstream_st *stream, struct work *after,
                         struct work **work);

#endif
