#include "graph_op.h"

#include "allocate.h"
#include "conditional.h"
#include "event.h"
#include "host_backing.h"
#include "lock.h"

#include <stdlib.h>

/* --- what a graph does --- */

/* One after another, in an order that their dependencies allow: [order:graph-nodes] assumed. */
static CUresult run_children(struct op *op) {
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < op->child_count && result == CUDA_SUCCESS; i++)
        result = op->children[i]->run(op->children[i]);
    return result;
}

static struct op *sequence(void) {
    struct op *op = op_create("graph", run_children);

    op->node_type = CU_GRAPH_NODE_TYPE_GRAPH;
    return op;
}

/* Takes the reference. NULL: nothing to be done. There is room for the next power of two. */
static void append(struct op *to, struct op *op) {
    size_t count = to->child_count;

    if (op == NULL)
        return;
    if ((count & (count - 1)) == 0)
        to->children =
            allocate_again(to->children, (count == 0 ? 1 : 2 * count) * sizeof(struct op *));
    to->children[to->child_count++] = op;
    to->calls_host = to->calls_host || op->calls_host;
}

static CUresult run_nothing(struct op *op) {
    (void)op;
    return CUDA_SUCCESS;
}

static void dispose_objects(struct op *op) {
    user_references_clear(&op->as.objects);
}

static struct op *objects_op(const struct CUgraph_st *graph) {
    struct op *op;

    if (graph->objects.count == 0)
        return NULL;
    op = op_create("user objects", run_nothing);
    user_references_copy(&op->as.objects, &graph->objects);
    op->dispose = dispose_objects;
    return op;
}

static struct op *node_op(const struct CUgraphNode_st *node) {
    struct op **bodies;

    if (node->disabled)
        return NULL;
    if (node->op != NULL)
        return op_keep(node->op);
    if (node->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return graph_op(node->graphs[0]);
    if (node->conditional == NULL)
        return NULL;
    bodies = allocate_zeroed(node->graph_count * sizeof(void *) + 1);
    for (size_t i = 0; i < node->graph_count; i++)
        bodies[i] = graph_op(node->graphs[i]);
    return conditional_op(node, bodies);
}

struct op *graph_op(const struct CUgraph_st *graph) {
    sim_check_held();
    struct CUgraphNode_st *stuck, **order = graph_order(graph, &stuck);
    struct op *op = sequence();

    if (order == NULL)
        abort();
    append(op, objects_op(graph));
    append(op, conditional_defaults_op(graph));
    for (size_t i = 0; i < graph->count; i++)
        append(op, node_op(order[i]));
    free(order);
    return op;
}

/* --- launches --- */

static bool is_event(const struct op *op) {
    return op->node_type == CU_GRAPH_NODE_TYPE_EVENT_RECORD ||
           op->node_type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
}

static bool has_events(const struct op *op) {
    bool has = is_event(op);

    for (size_t i = 0; i < op->child_count && !has; i++)
        has = has_events(op->children[i]);
    return has;
}

CUresult graph_op_check(const struct op *op) {
    sim_check_held();
    CUresult result = CUDA_SUCCESS;

    if (is_event(op)) {
        result = event_check(op->as.event);
        if (result == CUDA_SUCCESS && op->node_type == CU_GRAPH_NODE_TYPE_WAIT_EVENT &&
            op->as.event->point != NULL)
            result = CUDA_ERROR_CAPTURED_EVENT;
    }
    for (size_t i = 0; i < op->child_count && result == CUDA_SUCCESS; i++)
        result = graph_op_check(op->children[i]);
    return result;
}

/* A launch that is being submitted in parts; `part` is what is to come before the next event. */
struct parts {
    struct CUstream_st *stream;
    struct op *part;
    CUresult result;
};

static void submit_part(struct parts *parts) {
    if (parts->result == CUDA_SUCCESS && parts->part->child_count != 0)
        parts->result = stream_run(parts->stream, parts->part, false);
    else
        op_drop(parts->part);
    parts->part = sequence();
}

/* Event nodes become the stream's own records and waits, between the parts that run before and
 * behind them. */
static void submit_leaves(struct parts *parts, struct op *op) {
    if (is_event(op)) {
        submit_part(parts);
        if (parts->result == CUDA_SUCCESS)
            parts->result = op->node_type == CU_GRAPH_NODE_TYPE_EVENT_RECORD
                                ? event_record_in(op->as.event, parts->stream)
                                : event_hold_stream(op->as.event, parts->stream);
    } else if (has_events(op)) {
        for (size_t i = 0; i < op->child_count; i++)
            submit_leaves(parts, op->children[i]);
    } else {
        append(parts->part, op_keep(op));
    }
}

static void dispose_held(struct op *op) {
    op_drop(op->as.held);
}

/* Markers around the parts stand for the launch as a whole; the last one has all that the launch
 * needs until it is done. */
static CUresult submit_in_parts(struct op *op, struct CUstream_st *stream, struct work *after,
                                struct work **work) {
    struct parts parts = {.stream = stream};
    struct op *end;

    if (!host_backing_promise(op))
        parts.result = CUDA_ERROR_OUT_OF_MEMORY;
    if (parts.result == CUDA_SUCCESS && after != NULL)
        parts.result = stream_submit_after(stream, op_marker("graph"), after);
    if (parts.result != CUDA_SUCCESS)
        return parts.result;
    parts.part = sequence();
    submit_leaves(&parts, op);
    submit_part(&parts);
    op_drop(parts.part);
    if (parts.result != CUDA_SUCCESS)
        return parts.result;
    end = op_marker("end of a graph");
    end->as.held = op_keep(op);
    end->dispose = dispose_held;
    parts.result = stream_submit(stream, end, NULL, work);
    op_drop(end);
    return parts.result;
}

CUresult graph_op_submit(struct op *op, struct CUstream_st *stream, struct work *after,
                         struct work **work) {
    sim_check_held();
    return has_events(op) ? submit_in_parts(op, stream, after, work)
                          : stream_submit(stream, op, after, work);
}
