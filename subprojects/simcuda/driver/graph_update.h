/* Executable graphs that take what they do from another graph of the same shape. */
#ifndef SIMCUDA_GRAPH_UPDATE_H
#define SIMCUDA_GRAPH_UPDATE_H

#include "graph.h"

/* What a child graph node of an executable graph does, as another graph says it. INVALID_VALUE: it
 * is none, or the graph is too different. Lock not held. */
CUresult graph_update_child(CUgraphExec executable, CUgraphNode node, CUgraph child);

#endif
