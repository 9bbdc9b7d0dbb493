/* The entry points for graphs as a whole: their nodes and edges, and copies of them. */
#include "allocate.h"
#include "entry.h"
#include "graph.h"
#include "graph_node.h"
#include "lock.h"

#include <stdlib.h>
#include <string.h>

/* --- graphs --- */

SIM_EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned int flags) {
    ENTER(cuGraphCreate);
    if (graph == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    *graph = graph_create();
    graph_publish(*graph);
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphDestroy);
    sim_lock();
    if (graph_find(graph) != NULL && graph->owned_by_program && !graph_is_being_captured(graph)) {
        graph_dispose(graph);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphClone(CUgraph *clone, CUgraph graph) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphClone);
    sim_lock();
    if (clone != NULL && graph_find(graph) != NULL && graph_can_be_copied(graph)) {
        *clone = graph_clone(graph);
        graph_publish(*clone);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *found, CUgraphNode node, CUgraph clone) {
    struct CUgraphNode_st *copy = NULL;

    ENTER(cuGraphNodeFindInClone);
    sim_lock();
    if (found != NULL && graph_find_node(node) != NULL && graph_find(clone) != NULL)
        copy = graph_find_copy(clone, node->id);
    if (copy != NULL)
        *found = copy;
    sim_unlock();
    return copy != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* "Nodes which belong to a graph which contains allocation or free nodes cannot be destroyed." */
SIM_EXPORT CUresult cuGraphDestroyNode(CUgraphNode node) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphDestroyNode);
    sim_lock();
    if (graph_find_node(node) != NULL && !graph_has_memory_nodes(node->graph) &&
        !graph_is_being_captured(node->graph)) {
        graph_remove(node);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

/* --- nodes --- */

/* Without an array only the number is answered; with one that is too large, the rest of it is NULL.
 */
static void tell_nodes(struct CUgraphNode_st *const *found, size_t there, CUgraphNode *out,
                       size_t *count) {
    for (size_t i = 0; out != NULL && i < *count; i++)
        out[i] = i < there ? found[i] : NULL;
    if (out == NULL || *count > there)
        *count = there;
}

SIM_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphGetNodes);
    sim_lock();
    if (count != NULL && graph_find(graph) != NULL) {
        tell_nodes(graph->nodes, graph->count, nodes, count);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuGraphGetRootNodes);
    sim_lock();
    if (count != NULL && graph_find(graph) != NULL) {
        struct CUgraphNode_st **roots = allocate_zeroed(graph->count * sizeof(void *) + 1);
        size_t there = 0;

        for (size_t i = 0; i < graph->count; i++)
            if (graph->nodes[i]->edge_count == 0)
                roots[there++] = graph->nodes[i];
        tell_nodes(roots, there, nodes, count);
        free(roots);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

/* --- edges that there are --- */

/* Where a function puts what it tells of edges, in arrays of *count elements. Each may be NULL. */
struct edge_places {
    CUgraphNode *from, *to;
    CUgraphEdgeData *data;
    size_t *count;
    size_t room;   /* what *count was */
    size_t there;  /* edges seen so far */
    bool is_lossy; /* one has data, and there is no place for it */
};

static void tell_edge(struct edge_places *places, const struct graph_edge *edge,
                      struct CUgraphNode_st *to) {
    const CUgraphEdgeData plain = {0};
    size_t i = places->there++;
    bool is_asked = places->from != NULL || places->to != NULL;

    places->is_lossy = places->is_lossy || (is_asked && places->data == NULL &&
                                            memcmp(&edge->data, &plain, sizeof plain) != 0);
    if (i >= places->room)
        return;
    if (places->from != NULL)
        places->from[i] = edge->from;
    if (places->to != NULL)
        places->to[i] = to;
    if (places->data != NULL)
        places->data[i] = edge->data;
}

/* The edges of `graph` from and to nodes, where these are not NULL. */
static CUresult tell_edges(const struct CUgraph_st *graph, const struct CUgraphNode_st *from,
                           const struct CUgraphNode_st *to, struct edge_places *places) {
    bool is_asked = places->from != NULL || places->to != NULL;

    places->room = *places->count;
    for (size_t i = 0; i < graph->count; i++)
        for (size_t j = 0; j < graph->nodes[i]->edge_count; j++)
            if ((from == NULL || graph->nodes[i]->edges[j].from == from) &&
                (to == NULL || graph->nodes[i] == to))
                tell_edge(places, &graph->nodes[i]->edges[j], graph->nodes[i]);
    if (places->is_lossy)
        return (CUresult)402; /* LOSSY_QUERY, which older headers lack */
    for (size_t i = places->there; is_asked && i < places->room; i++) {
        if (places->from != NULL)
            places->from[i] = NULL;
        if (places->to != NULL)
            places->to[i] = NULL;
    }
    if (!is_asked || places->room > places->there)
        *places->count = places->there;
    return CUDA_SUCCESS;
}

static CUresult get_edges(CUgraph graph, struct edge_places places) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    if (places.count == NULL || (places.from == NULL) != (places.to == NULL) ||
        (places.data != NULL && places.from == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (graph_find(graph) != NULL)
        result = tell_edges(graph, NULL, NULL, &places);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                    size_t *count) {
    ENTER(cuGraphGetEdges);
    return get_edges(graph, (struct edge_places){.from = from, .to = to, .count = count});
}

static CUresult get_dependencies(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                 size_t *count) {
    struct edge_places places = {.from = nodes, .data = data, .count = count};
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    if (count == NULL || (data != NULL && nodes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (graph_find_node(node) != NULL)
        result = tell_edges(node->graph, NULL, node, &places);
    sim_unlock();
    return result;
}

static CUresult get_dependents(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                               size_t *count) {
    struct edge_places places = {.to = nodes, .data = data, .count = count};
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    if (count == NULL || (data != NULL && nodes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (graph_find_node(node) != NULL)
        result = tell_edges(node->graph, node, NULL, &places);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes,
                                               size_t *count) {
    ENTER(cuGraphNodeGetDependencies);
    return get_dependencies(node, nodes, NULL, count);
}

SIM_EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes,
                                                 size_t *count) {
    ENTER(cuGraphNodeGetDependentNodes);
    return get_dependents(node, nodes, NULL, count);
}

/* --- edges that are added and removed --- */

static struct graph_edge *find_edge(const struct CUgraphNode_st *to,
                                    const struct CUgraphNode_st *from) {
    for (size_t i = 0; i < to->edge_count; i++)
        if (to->edges[i].from == from)
            return &to->edges[i];
    return NULL;
}

/* Whether both are nodes of the graph, and different ones. */
static bool are_nodes(CUgraph graph, CUgraphNode from, CUgraphNode to) {
    return from != to && graph_find_node(from) != NULL && from->graph == graph &&
           graph_find_node(to) != NULL && to->graph == graph;
}

static CUresult add_edge(CUgraph graph, CUgraphNode from, CUgraphNode to,
                         const CUgraphEdgeData *data) {
    if (!are_nodes(graph, from, to) || find_edge(to, from) != NULL ||
        !node_edge_is_valid(data, from, to->type))
        return CUDA_ERROR_INVALID_VALUE;
    graph_add_edge(to, from, data);
    return CUDA_SUCCESS;
}

static CUresult remove_edge(CUgraph graph, CUgraphNode from, CUgraphNode to,
                            const CUgraphEdgeData *data) {
    const CUgraphEdgeData plain = {0};
    struct graph_edge *edge = are_nodes(graph, from, to) ? find_edge(to, from) : NULL;
    size_t behind;

    if (edge == NULL || memcmp(&edge->data, data != NULL ? data : &plain, sizeof plain) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    behind = to->edge_count - (size_t)(edge - to->edges) - 1;
    memmove(edge, edge + 1, behind * sizeof *edge);
    to->edge_count--;
    return CUDA_SUCCESS;
}

/* Puts the edges back that were there before. */
static void undo(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                 const CUgraphEdgeData *data, size_t count, bool was_added) {
    while (count-- != 0) {
        const CUgraphEdgeData *of = data != NULL ? &data[count] : NULL;

        if (was_added)
            remove_edge(graph, from[count], to[count], of);
        else
            graph_add_edge(to[count], from[count], of);
    }
}

/* All or none. A circle is not looked for before the graph is instantiated. */
static CUresult change_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *data, size_t count, bool add) {
    CUresult result = CUDA_SUCCESS;

    if (count != 0 && (from == NULL || to == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (graph_find(graph) == NULL || (!add && count != 0 && graph_has_memory_nodes(graph)))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        result =
            (add ? add_edge : remove_edge)(graph, from[i], to[i], data != NULL ? &data[i] : NULL);
        if (result != CUDA_SUCCESS)
            undo(graph, from, to, data, i, add);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                           const CUgraphNode *to, size_t count) {
    ENTER(cuGraphAddDependencies);
    return change_edges(graph, from, to, NULL, count, true);
}

SIM_EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                                              const CUgraphNode *to, size_t count) {
    ENTER(cuGraphRemoveDependencies);
    return change_edges(graph, from, to, NULL, count, false);
}

/* --- the forms with edges' data --- */

#if CUDA_VERSION >= 12030 /* older headers lack the type */
SIM_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                       CUgraphEdgeData *data, size_t *count) {
    ENTER(cuGraphGetEdges_v2);
    return get_edges(graph,
                     (struct edge_places){.from = from, .to = to, .data = data, .count = count});
}

SIM_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes,
                                                  CUgraphEdgeData *data, size_t *count) {
    ENTER(cuGraphNodeGetDependencies_v2);
    return get_dependencies(node, nodes, data, count);
}

SIM_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                                    CUgraphEdgeData *data, size_t *count) {
    ENTER(cuGraphNodeGetDependentNodes_v2);
    return get_dependents(node, nodes, data, count);
}

SIM_EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                              const CUgraphNode *to, const CUgraphEdgeData *data,
                                              size_t count) {
    ENTER(cuGraphAddDependencies_v2);
    return change_edges(graph, from, to, data, count, true);
}

SIM_EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                                 const CUgraphNode *to, const CUgraphEdgeData *data,
                                                 size_t count) {
    ENTER(cuGraphRemoveDependencies_v2);
    return change_edges(graph, from, to, data, count, false);
}
#endif
