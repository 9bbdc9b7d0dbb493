#include "graph_update.h"

#include "allocate.h"
#include "conditional.h"
#include "entry.h"
#include "graph_exec.h"
#include "graph_node.h"
#include "lock.h"
#include "node_attributes.h"

#include <stdlib.h>

/* Why the update is refused. */
struct refusal {
    CUgraphExecUpdateResult reason;
    struct CUgraphNode_st *node, *from;
};

/* Which nodes of an executable graph stand for which of another graph: pairs[i] is that for the
 * other's node i, NULL as long as there is none. `path` has those whose dependencies are to be
 * looked at. */
struct pairing {
    const struct CUgraph_st *ours, *other;
    struct CUgraphNode_st **pairs;
    bool *is_paired; /* by the index of ours */
    struct CUgraphNode_st **path;
    size_t depth;
};

static bool refuse(struct refusal *refusal, CUgraphExecUpdateResult reason,
                   struct CUgraphNode_st *node, struct CUgraphNode_st *from) {
    *refusal = (struct refusal){reason, node, from};
    return false;
}

/* False: one of the two has another partner. */
static bool pair(struct pairing *pairing, struct CUgraphNode_st *ours,
                 struct CUgraphNode_st *other) {
    struct CUgraphNode_st **there = &pairing->pairs[other->index];

    if (*there == NULL && !pairing->is_paired[ours->index]) {
        *there = ours;
        pairing->is_paired[ours->index] = true;
        pairing->path[pairing->depth++] = other;
    }
    return *there == ours;
}

/* The nodes that nothing depends on, in the order of their creation; the array is the caller's. */
static struct CUgraphNode_st **exits(const struct CUgraph_st *graph, size_t *count) {
    struct CUgraphNode_st **found = allocate_zeroed(graph->count * sizeof(void *) + 1);
    bool *has_dependents = allocate_zeroed(graph->count * sizeof *has_dependents + 1);

    *count = 0;
    for (size_t i = 0; i < graph->count; i++)
        for (size_t j = 0; j < graph->nodes[i]->edge_count; j++)
            has_dependents[graph->nodes[i]->edges[j].from->index] = true;
    for (size_t i = 0; i < graph->count; i++)
        if (!has_dependents[i])
            found[(*count)++] = graph->nodes[i];
    free(has_dependents);
    return found;
}

static bool pair_exits(struct pairing *pairing, struct refusal *refusal) {
    size_t count, our_count;
    struct CUgraphNode_st **other = exits(pairing->other, &count),
                          **ours = exits(pairing->ours, &our_count);
    bool same = count == our_count;

    if (!same)
        refuse(refusal, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
               count > our_count ? other[our_count] : NULL, NULL);
    for (size_t i = 0; i < count && same; i++)
        pair(pairing, ours[i], other[i]);
    free(other);
    free(ours);
    return same;
}

static bool pair_dependencies(struct pairing *pairing, struct CUgraphNode_st *node,
                              struct refusal *refusal) {
    const struct CUgraphNode_st *ours = pairing->pairs[node->index];

    if (ours->edge_count != node->edge_count)
        return refuse(refusal, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node, NULL);
    for (size_t i = 0; i < node->edge_count; i++)
        if (!pair(pairing, ours->edges[i].from, node->edges[i].from))
            return refuse(refusal, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, node,
                          node->edges[i].from);
    return true;
}

static void pairing_begin(struct pairing *pairing, const struct CUgraph_st *ours,
                          const struct CUgraph_st *other) {
    size_t count = ours->count > other->count ? ours->count : other->count;

    *pairing =
        (struct pairing){.ours = ours,
                         .other = other,
                         .pairs = allocate_zeroed(count * sizeof(void *) + 1),
                         .is_paired = allocate_zeroed(count * sizeof *pairing->is_paired + 1),
                         .path = allocate_zeroed(count * sizeof(void *) + 1)};
}

static void pairing_end(struct pairing *pairing) {
    free(pairing->pairs);
    free(pairing->is_paired);
    free(pairing->path);
}

/* Every node is before one that nothing depends on, unless there is a circle. */
static bool pair_all(struct pairing *pairing, struct refusal *refusal) {
    bool same = pairing->ours->count == pairing->other->count;

    if (!same)
        return refuse(refusal, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, NULL, NULL);
    same = pair_exits(pairing, refusal);
    while (same && pairing->depth != 0)
        same = pair_dependencies(pairing, pairing->path[--pairing->depth], refusal);
    for (size_t i = 0; i < pairing->other->count && same; i++)
        if (pairing->pairs[i] == NULL)
            same = refuse(refusal, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
                          pairing->other->nodes[i], NULL);
    return same;
}

/* --- what may change --- */

static bool is_same_attribute(const struct CUgraphNode_st *a, const struct CUgraphNode_st *b,
                              CUlaunchAttributeID which) {
    CUlaunchAttributeValue left = node_attribute(a->attributes, which),
                           right = node_attribute(b->attributes, which);

    return which == CU_LAUNCH_ATTRIBUTE_COOPERATIVE
               ? (left.cooperative != 0) == (right.cooperative != 0)
               : left.priority == right.priority;
}

static CUgraphExecUpdateResult check_node(const struct CUgraphNode_st *ours,
                                          const struct CUgraphNode_st *other, cuuint64_t flags) {
    if (ours->type != other->type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (!is_same_attribute(ours, other, CU_LAUNCH_ATTRIBUTE_COOPERATIVE) ||
        ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0 &&
         !is_same_attribute(ours, other, CU_LAUNCH_ATTRIBUTE_PRIORITY)))
        return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
    if (ours->conditional_type != other->conditional_type ||
        ours->graph_count != other->graph_count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    return ours->op != NULL ? node_check_change(ours->op, other->op) : CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* Whether `ours` may do what `other` does; changes nothing. */
static bool check(const struct CUgraph_st *ours, const struct CUgraph_st *other, cuuint64_t flags,
                  struct refusal *refusal) {
    struct pairing pairing;
    bool allowed;

    pairing_begin(&pairing, ours, other);
    allowed = pair_all(&pairing, refusal);
    for (size_t i = 0; i < other->count && allowed; i++) {
        const struct CUgraphNode_st *node = pairing.pairs[i];
        CUgraphExecUpdateResult reason = check_node(node, other->nodes[i], flags);

        if (reason != CU_GRAPH_EXEC_UPDATE_SUCCESS)
            allowed = refuse(refusal, reason, other->nodes[i], NULL);
        for (size_t j = 0; j < node->graph_count && allowed; j++)
            allowed = check(node->graphs[j], other->nodes[i]->graphs[j], flags, refusal);
    }
    pairing_end(&pairing);
    return allowed;
}

static void apply(struct CUgraph_st *ours, const struct CUgraph_st *other);

static void apply_to_node(struct CUgraphNode_st *ours, const struct CUgraphNode_st *other) {
    if (other->op != NULL)
        graph_set_op(ours, op_keep(other->op));
    free(ours->attributes);
    ours->attributes = node_attributes_copy(other->attributes);
    if (other->conditional != NULL) {
        conditional_drop(ours->conditional);
        ours->conditional = conditional_keep(other->conditional);
    }
    for (size_t i = 0; i < ours->graph_count; i++)
        apply(ours->graphs[i], other->graphs[i]);
}

/* What was checked before. */
static void apply(struct CUgraph_st *ours, const struct CUgraph_st *other) {
    struct refusal unused;
    struct pairing pairing;

    pairing_begin(&pairing, ours, other);
    if (!pair_all(&pairing, &unused))
        abort();
    for (size_t i = 0; i < other->count; i++)
        apply_to_node(pairing.pairs[i], other->nodes[i]);
    pairing_end(&pairing);
    graph_take_references(ours, other);
}

/* --- entry points --- */

static CUresult update(CUgraphExec handle, CUgraph graph, struct refusal *refusal) {
    struct CUgraphExec_st *executable;
    CUresult result;

    *refusal = (struct refusal){.reason = CU_GRAPH_EXEC_UPDATE_ERROR};
    sim_lock();
    result = graph_exec_find(handle, &executable);
    if (result == CUDA_SUCCESS &&
        (graph_find(graph) == NULL || graph_is_being_captured(graph) || graph->was_moved))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS &&
        !check(graph_exec_copy(executable), graph, graph_exec_flags(executable), refusal))
        result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    if (result == CUDA_SUCCESS) {
        apply(graph_exec_copy(executable), graph);
        graph_exec_changed(executable);
        refusal->reason = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphExecUpdate(CUgraphExec executable, CUgraph graph,
                                      CUgraphNode *error_node, CUgraphExecUpdateResult *reason) {
    struct refusal refusal;
    CUresult result;

    ENTER(cuGraphExecUpdate);
    if (reason == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = update(executable, graph, &refusal);
    *reason = refusal.reason;
    if (error_node != NULL)
        *error_node = refusal.node;
    return result;
}

SIM_EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec executable, CUgraph graph,
                                         CUgraphExecUpdateResultInfo *info) {
    struct refusal refusal;
    CUresult result;

    ENTER(cuGraphExecUpdate_v2);
    if (info == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = update(executable, graph, &refusal);
    *info = (CUgraphExecUpdateResultInfo){refusal.reason, refusal.node, refusal.from};
    return result;
}

CUresult graph_update_child(CUgraphExec handle, CUgraphNode node, CUgraph child) {
    sim_check_none();
    struct CUgraphExec_st *executable;
    struct CUgraphNode_st *copy;
    struct refusal unused;
    CUresult result;

    sim_lock();
    result = graph_exec_find(handle, &executable);
    copy = result == CUDA_SUCCESS ? graph_exec_node(executable, node) : NULL;
    if (copy == NULL || copy->type != CU_GRAPH_NODE_TYPE_GRAPH || graph_find(child) == NULL ||
        graph_is_being_captured(child) ||
        !check(copy->graphs[0], child, graph_exec_flags(executable), &unused)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        apply(copy->graphs[0], child);
        graph_exec_changed(executable);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec executable, CUgraphNode node,
                                                       CUgraph child) {
    ENTER(cuGraphExecChildGraphNodeSetParams);
    return graph_update_child(executable, node, child);
}
