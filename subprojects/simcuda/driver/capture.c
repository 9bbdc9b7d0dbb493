#include "capture.h"

#include "allocate.h"
#include "graph.h"
#include "hazard.h"
#include "lock.h"
#include "node_attributes.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* One cuStreamBeginCapture and what it drew in. Invariant: `graph` is set until it has ended; an
 * invalidated capture records nothing more but goes on prohibiting until it is ended. */
struct capture {
    unsigned int references; /* its streams and the events recorded in it */
    uint64_t id;
    CUstreamCaptureMode mode;
    pthread_t thread; /* the one that began it */
    struct CUstream_st *origin;
    bool invalid;
    struct CUgraph_st *graph;
    struct CUgraph_st *into; /* the program's graph that it records anew, NULL if none */
    bool adds;               /* `graph` was the program's before */
    struct capture *next;    /* of those not ended */
};

struct capture_point {
    struct capture *capture;
    struct graph_node_set nodes;
};

static struct capture *captures; /* not ended */
static uint64_t last_id;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void drop(struct capture *capture) {
    if (--capture->references == 0)
        free(capture);
}

static void join(struct CUstream_st *stream, struct capture *capture,
                 const struct graph_node_set *after) {
    stream->capture = capture;
    capture->references++;
    stream->frontier = allocate_zeroed(sizeof *stream->frontier);
    graph_set_copy(stream->frontier, after);
}

static void leave(struct CUstream_st *stream) {
    drop(stream->capture);
    stream->capture = NULL;
    graph_set_clear(stream->frontier);
    free(stream->frontier);
    stream->frontier = NULL;
}

/* [capture:unsafe] cuda.h 15454. Launches, making streams and events and mapping memory never ask:
 * [capture:safe] assumed. */
CUresult capture_check_unsafe(void) {
    sim_check_held();
    CUresult result = CUDA_SUCCESS;
    struct capture *capture;

    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    LL_FOREACH(captures, capture) {
        bool ours = pthread_equal(capture->thread, pthread_self());
        bool reaches_us = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                          capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;

        if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && (ours || reaches_us)) {
            capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return result;
}

/* [capture:legacy] cuda.h 15530 */
CUresult capture_check_legacy(struct CUstream_st *stream) {
    sim_check_held();
    CUresult result = CUDA_SUCCESS;
    struct CUstream_st *other;

    if (stream->kind != STREAM_LEGACY || captures == NULL)
        return CUDA_SUCCESS;
    DL_FOREACH(stream->context->streams, other) {
        if (other->capture != NULL && stream_is_blocking(other)) {
            other->capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return result;
}

/* [capture:context] cuda.h 7024 */
CUresult capture_check_context(struct CUctx_st *context) {
    sim_check_held();
    CUresult result = CUDA_SUCCESS;
    struct CUctx_st *part = NULL;
    struct CUstream_st *stream;

    while (captures != NULL && (part = context_next_part(context, part)) != NULL) {
        DL_FOREACH(part->streams, stream) {
            if (stream->capture != NULL) {
                stream->capture->invalid = true;
                result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            }
        }
    }
    return result;
}

/* [capture:stream-inquiry] assumed */
CUresult capture_check_stream(struct CUstream_st *stream) {
    sim_check_held();
    if (stream->capture == NULL)
        return CUDA_SUCCESS;
    stream->capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

struct CUgraph_st *capture_graph(struct CUstream_st *stream) {
    sim_check_held();
    return stream->capture->graph;
}

/* Whether the node came after the same others in the graph that is recorded anew. */
static bool is_as_before(const struct capture *capture, const struct CUgraphNode_st *node) {
    const struct CUgraphNode_st *before;
    bool same;

    if (capture->into == NULL)
        return true;
    if (node->index >= capture->into->count)
        return false;
    before = capture->into->nodes[node->index];
    same = before->type == node->type && before->edge_count == node->edge_count;
    for (size_t i = 0; same && i < node->edge_count; i++)
        same = before->edges[i].from->index == node->edges[i].from->index;
    return same;
}

/* Whether such a node may be in the graph that is recorded, which may be a conditional's body. */
static CUresult check_type(struct capture *capture, CUgraphNodeType type) {
    CUresult result = capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                       : graph_check_type(capture->graph, type);

    capture->invalid = capture->invalid || result != CUDA_SUCCESS;
    return result;
}

/* Puts the new node behind what the stream has recorded before. */
static CUresult go_behind(struct CUstream_st *stream, struct CUgraphNode_st *node) {
    struct capture *capture = stream->capture;

    for (size_t i = 0; i < stream->frontier->count; i++)
        graph_add_edge(node, stream->frontier->nodes[i], NULL);
    if (!is_as_before(capture, node)) {
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    graph_set_clear(stream->frontier);
    graph_set_merge(stream->frontier, &(struct graph_node_set){&node, 1});
    return CUDA_SUCCESS;
}

CUresult capture_add(struct CUstream_st *stream, struct op *op) {
    sim_check_held();
    struct capture *capture = stream->capture;
    CUresult result = check_type(capture, op->node_type);
    struct CUgraphNode_st *node;

    if (result != CUDA_SUCCESS)
        return result;
    hazard_note_owners(op);
    node = graph_add(capture->graph, op->node_type, op);
    if (op->node_type == CU_GRAPH_NODE_TYPE_KERNEL)
        node->attributes = node_attributes_copy(op->as.kernel.attributes);
    return go_behind(stream, node);
}

CUresult capture_add_graph(struct CUstream_st *stream, const struct CUgraph_st *graph) {
    sim_check_held();
    struct capture *capture = stream->capture;
    CUresult result = check_type(capture, CU_GRAPH_NODE_TYPE_GRAPH);
    struct CUgraphNode_st *node;

    if (result == CUDA_SUCCESS && !graph_can_be_copied(graph)) {
        capture->invalid = true; /* [capture:child-graph] assumed */
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (result != CUDA_SUCCESS)
        return result;
    node = graph_add(capture->graph, CU_GRAPH_NODE_TYPE_GRAPH, NULL);
    graph_adopt(node, graph_clone(graph));
    return go_behind(stream, node);
}

CUresult capture_add_beside(struct CUstream_st *stream, struct op **ops, size_t count) {
    sim_check_held();
    struct graph_node_set before = {0}, all = {0};
    CUresult result = CUDA_SUCCESS;

    graph_set_copy(&before, stream->frontier);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        graph_set_clear(stream->frontier);
        graph_set_copy(stream->frontier, &before);
        result = capture_add(stream, ops[i]);
        graph_set_merge(&all, stream->frontier);
    }
    if (count != 0) {
        graph_set_clear(stream->frontier);
        graph_set_merge(stream->frontier, &all);
    }
    graph_set_clear(&before);
    graph_set_clear(&all);
    return result;
}

struct capture_point *capture_record(struct CUstream_st *stream) {
    sim_check_held();
    struct capture_point *point = allocate_zeroed(sizeof *point);

    point->capture = stream->capture;
    point->capture->references++;
    graph_set_copy(&point->nodes, stream->frontier);
    return point;
}

void capture_point_drop(struct capture_point *point) {
    sim_check_held();
    graph_set_clear(&point->nodes);
    drop(point->capture);
    free(point);
}

void capture_point_invalidate(struct capture_point *point) {
    sim_check_held();
    point->capture->invalid = true;
}

CUresult capture_wait(struct CUstream_st *stream, const struct capture_point *point) {
    sim_check_held();
    struct capture *capture = point != NULL ? point->capture : NULL;

    if (capture == NULL) { /* [capture:isolation] cuda.h 3100 */
        stream->capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (capture->graph == NULL)
        return CUDA_ERROR_CAPTURED_EVENT; /* of a capture that has ended */
    if (capture->invalid || (stream->capture != NULL && stream->capture->invalid))
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->kind == STREAM_LEGACY) {
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (stream->capture == NULL) {
        join(stream, capture, &point->nodes);
    } else if (stream->capture == capture) {
        graph_set_merge(stream->frontier, &point->nodes);
    } else {
        stream->capture->invalid = capture->invalid = true; /* [capture:merge] cuda.h 3083 */
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    return CUDA_SUCCESS;
}

/* Calls `visit` for every stream that `capture` drew in. */
static bool for_streams(struct capture *capture, bool (*visit)(struct CUstream_st *)) {
    struct CUctx_st *context;
    struct CUstream_st *stream, *next;
    bool all = true;

    LL_FOREACH(context_list(), context)
    DL_FOREACH_SAFE(context->streams, stream, next)
    if (stream->capture == capture)
        all = visit(stream) && all;
    return all;
}

/* [capture:unjoined] cuda.h 3094 */
static bool is_joined(struct CUstream_st *stream) {
    return graph_precedes(stream->capture->graph, stream->frontier,
                          stream->capture->origin->frontier);
}

static bool visit_leave(struct CUstream_st *stream) {
    leave(stream);
    return true;
}

static bool lacks_nodes(const struct capture *capture) {
    return capture->into != NULL && capture->graph->count < capture->into->count;
}

/* Ends the capture; its graph is the caller's, NULL if it was invalidated. [capture:invalidated]
 * cuda.h 15487 */
static CUresult end(struct capture *capture, struct CUgraph_st **graph) {
    CUresult result = CUDA_SUCCESS;

    if (capture->invalid || lacks_nodes(capture))
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!for_streams(capture, is_joined))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    *graph = NULL;
    capture->graph->is_captured = false;
    if (capture->into != NULL)
        capture->into->is_captured = false;
    if (result == CUDA_SUCCESS && capture->into != NULL)
        *graph = graph_replace(capture->into, capture->graph);
    else if (result == CUDA_SUCCESS)
        *graph = capture->graph;
    else if (!capture->adds)
        graph_dispose(capture->graph);
    capture->graph = NULL;
    LL_DELETE(captures, capture);
    for_streams(capture, visit_leave);
    return result;
}

void capture_stream_ending(struct CUstream_st *stream) {
    sim_check_held();
    struct capture *capture = stream->capture;
    struct CUgraph_st *graph;

    if (capture == NULL)
        return;
    capture->invalid = true;
    if (capture->origin == stream)
        end(capture, &graph);
    else
        leave(stream);
}

/* --- entry points --- */

/* Where a capture puts its nodes. All NULL: in a graph of its own. */
struct target {
    CUgraph anew;  /* the graph that is to get the same nodes again */
    CUgraph graph; /* the graph that gets more nodes, the first of them behind `after` */
    struct graph_node_set after;
};

static CUresult check_target(const struct target *target) {
    CUresult result = CUDA_SUCCESS;

    if (target->anew != NULL && (graph_find(target->anew) == NULL || target->anew->is_captured))
        result = CUDA_ERROR_INVALID_VALUE;
    if (target->graph != NULL && (graph_find(target->graph) == NULL || target->graph->is_captured))
        result = CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? graph_check_nodes(target->graph, &target->after) : result;
}

static CUresult begin(CUstream handle, CUstreamCaptureMode mode, const struct target *target,
                      enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
        mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && stream->kind == STREAM_LEGACY)
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* [capture:not-legacy] cuda.h 15350 */
    if (result == CUDA_SUCCESS && stream->capture != NULL)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result == CUDA_SUCCESS)
        result = check_target(target);
    if (result == CUDA_SUCCESS) {
        struct capture *capture = allocate_zeroed(sizeof *capture);

        capture->id = ++last_id;
        capture->mode = mode;
        capture->thread = pthread_self();
        capture->origin = stream;
        capture->adds = target->graph != NULL;
        capture->graph = capture->adds ? target->graph : graph_create();
        capture->graph->is_captured = true;
        capture->into = target->anew;
        if (capture->into != NULL)
            capture->into->is_captured = true; /* it stays until the capture has ended */
        LL_PREPEND(captures, capture);
        join(stream, capture, &target->after);
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamBeginCapture, _ptsz, (CUstream stream),
             begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, &(struct target){0}, null_stream))
EXPORT_FORMS(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, CUstreamCaptureMode mode),
             begin(stream, mode, &(struct target){0}, null_stream))

/* Nodes' parameters are not compared, so nobody notices that they differ. */
static CUresult begin_again(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                            CUgraphRecaptureCallback callback, enum null_stream null_stream) {
    if (graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return callback ? entry_not_simulated("a callback")
                    : begin(stream, mode, &(struct target){.anew = graph}, null_stream);
}

EXPORT_FORMS(cuStreamBeginRecaptureToGraph, _ptsz,
             (CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
              CUgraphRecaptureCallback callback, void *data),
             ((void)data, begin_again(stream, mode, graph, callback, null_stream)))

#if CUDA_VERSION >= 12030 /* as the functions with edges' data */
/* A capture's edges are plain ones. */
static bool has_data(const CUgraphEdgeData *edges, size_t count) {
    const CUgraphEdgeData plain = {0};

    for (size_t i = 0; edges != NULL && i < count; i++)
        if (memcmp(&edges[i], &plain, sizeof plain) != 0)
            return true;
    return false;
}

static CUresult begin_in(CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                         const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode,
                         enum null_stream null_stream) {
    const struct target target = {.graph = graph, .after = {(CUgraphNode *)dependencies, count}};

    if (graph == NULL || (dependencies == NULL && count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (has_data(edges, count))
        return entry_not_simulated("a programmatic edge");
    return begin(stream, mode, &target, null_stream);
}

EXPORT_FORMS(cuStreamBeginCaptureToGraph, _ptsz,
             (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
              const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
             begin_in(stream, graph, dependencies, edges, count, mode, null_stream))
#endif

static CUresult end_capture(CUstream handle, CUgraph *graph, enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (graph == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && stream->capture == NULL)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result == CUDA_SUCCESS && stream->capture->origin != stream)
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED; /* [capture:unmatched] cuda.h 3089 */
    if (result == CUDA_SUCCESS && stream->capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(stream->capture->thread, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD; /* [capture:wrong-thread] cuda.h 15356 */
    if (result == CUDA_SUCCESS) {
        result = end(stream->capture, graph);
        if (*graph != NULL && (*graph)->parent == NULL)
            graph_publish(*graph);
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *graph),
             end_capture(stream, graph, null_stream))

/* A blocking stream that is capturing makes the legacy stream's state undefined; asking about it
 * does not invalidate the capture. [capture:status-legacy] cuda.h 15525 */
static CUresult find_capture(CUstream handle, enum null_stream null_stream,
                             struct CUstream_st **stream) {
    CUresult result = stream_current(handle, null_stream, stream);
    struct CUstream_st *other;

    if (result == CUDA_SUCCESS && (*stream)->kind == STREAM_LEGACY)
        DL_FOREACH((*stream)->context->streams, other)
    if (other->capture != NULL && stream_is_blocking(other))
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return result;
}

static CUstreamCaptureStatus status_of(const struct CUstream_st *stream) {
    if (stream->capture == NULL)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Every output but `status` may be NULL and is set only while a capture is active. */
static CUresult get_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                         CUgraph *graph, const CUgraphNode **dependencies, size_t *count,
                         enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = find_capture(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS)
        *status = status_of(stream);
    if (result == CUDA_SUCCESS && *status == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (id != NULL)
            *id = stream->capture->id;
        if (graph != NULL)
            *graph = stream->capture->graph;
        if (dependencies != NULL)
            *dependencies = stream->frontier->nodes;
        if (count != NULL)
            *count = stream->frontier->count;
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamIsCapturing, _ptsz, (CUstream stream, CUstreamCaptureStatus *status),
             get_info(stream, status, NULL, NULL, NULL, NULL, null_stream))
EXPORT_FORMS(cuStreamGetCaptureInfo, _ptsz,
             (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
             get_info(stream, status, id, NULL, NULL, NULL, null_stream))
EXPORT_FORMS(cuStreamGetCaptureInfo_v2, _ptsz,
             (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
              const CUgraphNode **dependencies, size_t *count),
             get_info(stream, status, id, graph, dependencies, count, null_stream))

static CUresult get_info_with_edges(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                                    CUgraph *graph, const CUgraphNode **dependencies,
                                    const CUgraphEdgeData **edges, size_t *count,
                                    enum null_stream null_stream) {
    if (edges != NULL)
        *edges = NULL; /* all edges are plain ones */
    return get_info(stream, status, id, graph, dependencies, count, null_stream);
}

EXPORT_FORMS(cuStreamGetCaptureInfo_v3, _ptsz,
             (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
              const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count),
             get_info_with_edges(stream, status, id, graph, dependencies, edges, count,
                                 null_stream))

static CUresult update(CUstream handle, const struct graph_node_set *nodes, unsigned int flags,
                       enum null_stream null_stream) {
    struct CUstream_st *stream;
    CUresult result;

    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (nodes->nodes == NULL && nodes->count != 0))
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = find_capture(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && stream->capture == NULL)
        result = CUDA_ERROR_ILLEGAL_STATE;
    if (result == CUDA_SUCCESS && stream->capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (result == CUDA_SUCCESS)
        result = graph_check_nodes(stream->capture->graph, nodes);
    if (result == CUDA_SUCCESS) {
        if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
            graph_set_clear(stream->frontier);
        graph_set_merge(stream->frontier, nodes);
    }
    sim_unlock();
    return result;
}

EXPORT_FORMS(cuStreamUpdateCaptureDependencies, _ptsz,
             (CUstream stream, CUgraphNode *dependencies, size_t count, unsigned int flags),
             update(stream, &(struct graph_node_set){dependencies, count}, flags, null_stream))

#if CUDA_VERSION >= 12030
static CUresult update_with_edges(CUstream stream, CUgraphNode *dependencies,
                                  const CUgraphEdgeData *edges, size_t count, unsigned int flags,
                                  enum null_stream null_stream) {
    return has_data(edges, count)
               ? entry_not_simulated("a programmatic edge")
               : update(stream, &(struct graph_node_set){dependencies, count}, flags, null_stream);
}

EXPORT_FORMS(cuStreamUpdateCaptureDependencies_v2, _ptsz,
             (CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *edges,
              size_t count, unsigned int flags),
             update_with_edges(stream, dependencies, edges, count, flags, null_stream))
#endif

SIM_EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    CUstreamCaptureMode before = thread_mode;

    ENTER(cuThreadExchangeStreamCaptureMode);
    if (mode == NULL ||
        (*mode != CU_STREAM_CAPTURE_MODE_GLOBAL && *mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
         *mode != CU_STREAM_CAPTURE_MODE_RELAXED))
        return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
