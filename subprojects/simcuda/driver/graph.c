#include "graph.h"

#include "allocate.h"
#include "conditional.h"
#include "lock.h"
#include "node_attributes.h"

#include <stdlib.h>
#include <string.h>

static struct CUgraph_st *graphs;    /* all, by handle */
static struct CUgraphNode_st *nodes; /* of all graphs, by handle */
static uint64_t last_id;             /* of both */

/* --- sets --- */

void graph_set_clear(struct graph_node_set *set) {
    sim_check_held();
    free(set->nodes);
    set->nodes = NULL;
    set->count = 0;
}

void graph_set_merge(struct graph_node_set *into, const struct graph_node_set *from) {
    sim_check_held();
    for (size_t i = 0; i < from->count; i++) {
        bool present = false;

        for (size_t j = 0; j < into->count; j++)
            present = present || into->nodes[j] == from->nodes[i];
        if (present)
            continue;
        into->nodes = allocate_again(into->nodes, (into->count + 1) * sizeof(void *));
        into->nodes[into->count++] = from->nodes[i];
    }
}

void graph_set_copy(struct graph_node_set *to, const struct graph_node_set *from) {
    sim_check_held();
    *to = (struct graph_node_set){0};
    graph_set_merge(to, from);
}

/* --- graphs and nodes --- */

struct CUgraph_st *graph_create(void) {
    sim_check_held();
    struct CUgraph_st *graph = allocate_zeroed(sizeof *graph);

    graph->id = ++last_id;
    graph->self = graph;
    HASH_ADD(by_handle, graphs, self, sizeof(void *), graph);
    return graph;
}

void graph_publish(struct CUgraph_st *graph) {
    sim_check_held();
    graph->owned_by_program = true;
}

struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, CUgraphNodeType type, struct op *op) {
    sim_check_held();
    struct CUgraphNode_st *node = allocate_zeroed(sizeof *node);

    node->type = type;
    node->graph = graph;
    node->id = ++last_id;
    node->index = graph->count;
    node->op = op != NULL ? op_keep(op) : NULL;
    if (graph->count == graph->room) {
        graph->room = graph->room == 0 ? 8 : graph->room * 2;
        graph->nodes = allocate_again(graph->nodes, graph->room * sizeof(void *));
    }
    graph->nodes[graph->count++] = node;
    node->self = node;
    HASH_ADD(by_handle, nodes, self, sizeof(void *), node);
    return node; // NOLINT(clang-analyzer-unix.Malloc): the graph has it
}

void graph_add_edge(struct CUgraphNode_st *to, struct CUgraphNode_st *from,
                    const CUgraphEdgeData *data) {
    sim_check_held();
    to->edges = allocate_again(to->edges, (to->edge_count + 1) * sizeof *to->edges);
    to->edges[to->edge_count] = (struct graph_edge){.from = from};
    if (data != NULL)
        to->edges[to->edge_count].data = *data;
    to->edge_count++;
}

void graph_adopt(struct CUgraphNode_st *node, struct CUgraph_st *graph) {
    sim_check_held();
    node->graphs = allocate_again(node->graphs, (node->graph_count + 1) * sizeof(void *));
    node->graphs[node->graph_count++] = graph;
    graph->parent = node;
    graph->owned_by_program = false;
}

void graph_set_op(struct CUgraphNode_st *node, struct op *op) {
    sim_check_held();
    if (node->op != NULL)
        op_drop(node->op);
    node->op = op;
}

static void node_free(struct CUgraphNode_st *node) {
    for (size_t i = 0; i < node->graph_count; i++)
        graph_dispose(node->graphs[i]);
    if (node->op != NULL)
        op_drop(node->op);
    if (node->conditional != NULL)
        conditional_drop(node->conditional);
    HASH_DELETE(by_handle, nodes, node); // NOLINT(clang-analyzer-core.NullDereference): it is in it
    free(node->graphs);
    free(node->edges);
    free(node->attributes);
    free(node);
}

static void remove_edges_from(struct CUgraphNode_st *to, const struct CUgraphNode_st *from) {
    size_t kept = 0;

    for (size_t i = 0; i < to->edge_count; i++)
        if (to->edges[i].from != from)
            to->edges[kept++] = to->edges[i];
    to->edge_count = kept;
}

void graph_remove(struct CUgraphNode_st *node) {
    sim_check_held();
    struct CUgraph_st *graph = node->graph;

    graph->count--;
    for (size_t i = node->index; i < graph->count; i++) {
        graph->nodes[i] = graph->nodes[i + 1];
        graph->nodes[i]->index = i;
    }
    for (size_t i = 0; i < graph->count; i++)
        remove_edges_from(graph->nodes[i], node);
    node_free(node);
}

static void drop_nodes(struct CUgraph_st *graph) {
    for (size_t i = 0; i < graph->count; i++)
        node_free(graph->nodes[i]);
    free(graph->nodes);
}

static void drop_references(struct CUgraph_st *graph) {
    user_references_clear(&graph->objects);
    for (size_t i = 0; i < graph->conditional_count; i++)
        conditional_drop(graph->conditionals[i]);
    free(graph->conditionals);
    graph->conditionals = NULL;
    graph->conditional_count = 0;
}

static void copy_references(struct CUgraph_st *to, const struct CUgraph_st *from) {
    user_references_copy(&to->objects, &from->objects);
    for (size_t i = 0; i < from->conditional_count; i++)
        conditional_attach(to, from->conditionals[i]);
}

void graph_take_references(struct CUgraph_st *graph, const struct CUgraph_st *from) {
    sim_check_held();
    struct CUgraph_st old = {.objects = graph->objects,
                             .conditionals = graph->conditionals,
                             .conditional_count = graph->conditional_count};

    graph->conditionals = NULL;
    graph->conditional_count = 0;
    copy_references(graph, from);
    drop_references(&old); /* last: they may be the same */
}

void graph_dispose(struct CUgraph_st *graph) {
    sim_check_held();
    drop_nodes(graph);
    drop_references(graph);
    HASH_DELETE(by_handle, graphs, graph);
    free(graph);
}

/* The new nodes are the old ones' to executable graphs. */
struct CUgraph_st *graph_replace(struct CUgraph_st *graph, struct CUgraph_st *by) {
    sim_check_held();
    for (size_t i = 0; i < by->count; i++) {
        by->nodes[i]->graph = graph;
        if (i < graph->count)
            by->nodes[i]->id = graph->nodes[i]->id;
    }
    drop_nodes(graph);
    graph->nodes = by->nodes;
    graph->count = by->count;
    graph->room = by->room;
    by->nodes = NULL;
    by->count = by->room = 0;
    graph_dispose(by);
    return graph;
}

static void clone_node(struct CUgraph_st *into, const struct CUgraphNode_st *node) {
    struct CUgraphNode_st *made = graph_add(into, node->type, node->op);

    made->origin = node->id;
    made->disabled = node->disabled;
    made->conditional_type = node->conditional_type;
    made->attributes = node_attributes_copy(node->attributes);
    for (size_t i = 0; i < node->graph_count; i++)
        graph_adopt(made, graph_clone(node->graphs[i]));
    if (node->conditional != NULL)
        made->conditional = conditional_keep(node->conditional);
}

struct CUgraph_st *graph_clone(const struct CUgraph_st *graph) {
    sim_check_held();
    struct CUgraph_st *clone = graph_create();

    clone->origin = graph->id;
    for (size_t i = 0; i < graph->count; i++)
        clone_node(clone, graph->nodes[i]);
    for (size_t i = 0; i < graph->count; i++)
        for (size_t j = 0; j < graph->nodes[i]->edge_count; j++) {
            const struct graph_edge *edge = &graph->nodes[i]->edges[j];

            graph_add_edge(clone->nodes[i], clone->nodes[edge->from->index], &edge->data);
        }
    copy_references(clone, graph);
    return clone;
}

/* --- finding --- */

static bool is_known(const struct CUgraph_st *graph) {
    while (graph->parent != NULL)
        graph = graph->parent->graph;
    return graph->owned_by_program || graph->is_captured;
}

struct CUgraph_st *graph_find(CUgraph handle) {
    sim_check_held();
    struct CUgraph_st *graph;

    HASH_FIND(by_handle, graphs, &handle, sizeof(void *), graph);
    return graph != NULL && is_known(graph) ? graph : NULL;
}

struct CUgraphNode_st *graph_find_node(CUgraphNode handle) {
    sim_check_held();
    struct CUgraphNode_st *node;

    HASH_FIND(by_handle, nodes, &handle, sizeof(void *), node);
    return node != NULL && is_known(node->graph) ? node : NULL;
}

struct CUgraphNode_st *graph_find_copy(const struct CUgraph_st *graph, uint64_t origin) {
    sim_check_held();
    struct CUgraphNode_st *found = NULL;

    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i]->origin == origin)
            return graph->nodes[i];
    for (size_t i = 0; i < graph->count && found == NULL; i++)
        for (size_t j = 0; j < graph->nodes[i]->graph_count && found == NULL; j++)
            found = graph_find_copy(graph->nodes[i]->graphs[j], origin);
    return found;
}

bool graph_is_being_captured(const struct CUgraph_st *graph) {
    sim_check_held();
    bool is = graph->is_captured;

    for (size_t i = 0; i < graph->count && !is; i++)
        for (size_t j = 0; j < graph->nodes[i]->graph_count && !is; j++)
            is = graph_is_being_captured(graph->nodes[i]->graphs[j]);
    return is;
}

bool graph_has(const struct CUgraph_st *graph, CUgraphNodeType type) {
    sim_check_held();
    bool has = false;

    for (size_t i = 0; i < graph->count && !has; i++) {
        has = graph->nodes[i]->type == type;
        for (size_t j = 0; j < graph->nodes[i]->graph_count && !has; j++)
            has = graph_has(graph->nodes[i]->graphs[j], type);
    }
    return has;
}

bool graph_has_memory_nodes(const struct CUgraph_st *graph) {
    sim_check_held();
    return graph_has(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC) ||
           graph_has(graph, CU_GRAPH_NODE_TYPE_MEM_FREE);
}

bool graph_can_be_copied(const struct CUgraph_st *graph) {
    sim_check_held();
    return !graph_has_memory_nodes(graph) && graph->conditional_count == 0 &&
           !graph_has(graph, NODE_TYPE_CONDITIONAL); /* a body has no handles of its own */
}

/* --- what can be where --- */

static bool is_of_memory(CUgraphNodeType type) {
    return type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

/* "Allowed node types are kernel nodes, empty nodes, child graphs, memsets, memcopies, and
 * conditionals": the last is the youngest of the types. */
static bool can_be_conditional(CUgraphNodeType type) {
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_EMPTY ||
           type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_MEMSET ||
           type == CU_GRAPH_NODE_TYPE_MEMCPY || type == NODE_TYPE_CONDITIONAL;
}

CUresult graph_check_type(const struct CUgraph_st *graph, CUgraphNodeType type) {
    sim_check_held();
    for (; graph->parent != NULL; graph = graph->parent->graph) {
        if (graph->parent->conditional != NULL && !can_be_conditional(type))
            return CUDA_ERROR_NOT_SUPPORTED;
        if (graph->parent->conditional == NULL &&
            (is_of_memory(type) || type == NODE_TYPE_CONDITIONAL))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static int compare_nodes(const void *a, const void *b) {
    const struct CUgraphNode_st *left = *(struct CUgraphNode_st *const *)a,
                                *right = *(struct CUgraphNode_st *const *)b;

    return (left > right) - (left < right);
}

CUresult graph_check_nodes(const struct CUgraph_st *graph, const struct graph_node_set *set) {
    sim_check_held();
    struct CUgraphNode_st **sorted = allocate_zeroed(set->count * sizeof(void *) + 1);
    bool valid = true;

    for (size_t i = 0; i < set->count && valid; i++) {
        sorted[i] = graph_find_node(set->nodes[i]);
        valid = sorted[i] != NULL && sorted[i]->graph == graph;
    }
    if (valid && set->count != 0)
        qsort(sorted, set->count, sizeof(void *), compare_nodes);
    for (size_t i = 1; i < set->count && valid; i++)
        valid = sorted[i] != sorted[i - 1];
    free(sorted);
    return valid ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- order --- */

/* A walk to what nodes depend on. next[i]: which of node i's edges is looked at next. */
struct walk {
    struct CUgraphNode_st **order;
    size_t ordered;
    struct CUgraphNode_st **path; /* from the node that it began with to the one that it is at */
    size_t depth;
    size_t *next;
    enum { NEW, ON_PATH, ORDERED } * states;
};

static void step_into(struct walk *walk, struct CUgraphNode_st *node) {
    walk->states[node->index] = ON_PATH;
    walk->path[walk->depth++] = node;
}

/* Orders `node` behind all that it depends on. False: that is itself. */
static bool order_up_to(struct walk *walk, struct CUgraphNode_st *node) {
    step_into(walk, node);
    while (walk->depth != 0) {
        struct CUgraphNode_st *at = walk->path[walk->depth - 1], *from;

        if (walk->next[at->index] == at->edge_count) {
            walk->states[at->index] = ORDERED;
            walk->order[walk->ordered++] = at;
            walk->depth--;
            continue;
        }
        from = at->edges[walk->next[at->index]++].from;
        if (walk->states[from->index] == ON_PATH)
            return false;
        if (walk->states[from->index] == NEW)
            step_into(walk, from);
    }
    return true;
}

struct CUgraphNode_st **graph_order(const struct CUgraph_st *graph, struct CUgraphNode_st **stuck) {
    sim_check_held();
    size_t pointers = graph->count * sizeof(void *) + 1;
    struct walk walk = {.order = allocate_zeroed(pointers),
                        .path = allocate_zeroed(pointers),
                        .next = allocate_zeroed(graph->count * sizeof(size_t) + 1),
                        .states = allocate_zeroed(graph->count * sizeof *walk.states + 1)};
    bool acyclic = true;

    for (size_t i = 0; i < graph->count && acyclic; i++)
        acyclic = walk.states[i] == ORDERED || order_up_to(&walk, graph->nodes[i]);
    if (!acyclic) {
        *stuck = walk.path[walk.depth - 1];
        free(walk.order);
        walk.order = NULL;
    }
    free(walk.path);
    free(walk.next);
    free(walk.states);
    return walk.order;
}

bool graph_precedes(const struct CUgraph_st *graph, const struct graph_node_set *set,
                    const struct graph_node_set *ends) {
    sim_check_held();
    bool *before = allocate_zeroed(graph->count * sizeof *before + 1);
    struct CUgraphNode_st **path = allocate_zeroed(graph->count * sizeof(void *) + 1);
    size_t depth = 0;
    bool all = true;

    for (size_t i = 0; i < ends->count; i++) {
        before[ends->nodes[i]->index] = true;
        path[depth++] = ends->nodes[i];
    }
    while (depth != 0) {
        const struct CUgraphNode_st *at = path[--depth];

        for (size_t i = 0; i < at->edge_count; i++)
            if (!before[at->edges[i].from->index]) {
                before[at->edges[i].from->index] = true;
                path[depth++] = at->edges[i].from;
            }
    }
    for (size_t i = 0; i < set->count; i++)
        all = all && before[set->nodes[i]->index];
    free(before);
    free(path);
    return all;
}
