#include "graph_node.h"

#include "allocate.h"
#include "conditional.h"
#include "context.h"
#include "copy.h"
#include "event.h"
#include "external_semaphore.h"
#include "graph_memory.h"
#include "hazard.h"
#include "host_call.h"
#include "launch.h"
#include "lock.h"
#include "memory.h"
#include "memset.h"
#include "module.h"
#include "settings.h"
#include "stream_memory.h"

#include <stdlib.h>
#include <string.h>

/* --- operations --- */

/* A function runs in its module's context, whatever the current one is. */
static CUresult kernel_op(const struct node_request *request, struct op **op) {
    const struct CUfunc_st *function = module_find_function(request->as.kernel.func);
    struct CUctx_st *context;
    CUresult result;

    if (function != NULL && function->module->context == NULL)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    result = context_or_current(function != NULL ? function->module->context : request->context,
                                &context);
    return result == CUDA_SUCCESS ? launch_op(&request->as.kernel, context, op) : result;
}

/* Where copies and fills run matters only in that it must be a context. */
static CUresult check_context(const struct node_request *request) {
    struct CUctx_st *context;

    return request->context != NULL ? context_check(request->context, &context) : CUDA_SUCCESS;
}

static CUresult copy_node_op(const struct node_request *request, struct op **op) {
    const CUDA_MEMCPY3D *of = request->as.copy;
    struct copy copy;
    CUresult result = check_context(request);

    if (result == CUDA_SUCCESS &&
        (!copy_from_3d(of, &copy) || copy.width == 0 || copy.rows == 0 || copy.slices == 0 ||
         copy.to.address == 0 || copy.from.address == 0))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = copy_op(&copy, op);
    if (result != CUDA_SUCCESS)
        return result;
    (*op)->as.copy.given = allocate_zeroed(sizeof *of);
    *(*op)->as.copy.given = *of;
    if (of->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        (*op)->as.copy.to.home.kind = HOME_ARRAY;
    if (of->srcMemoryType == CU_MEMORYTYPE_ARRAY)
        (*op)->as.copy.from.home.kind = HOME_ARRAY;
    return CUDA_SUCCESS;
}

static CUresult fill_op(const struct node_request *request, struct op **op) {
    const CUDA_MEMSET_NODE_PARAMS_v1 *of = &request->as.fill;
    struct fill fill = {.address = of->dst,
                        .pitch = of->height > 1 ? of->pitch : 0,
                        .width = of->width,
                        .rows = of->height,
                        .value = of->value,
                        .element = of->elementSize};
    CUresult result = check_context(request);

    if (result == CUDA_SUCCESS &&
        ((of->elementSize != 1 && of->elementSize != 2 && of->elementSize != 4) || of->width == 0 ||
         of->height == 0))
        result = CUDA_ERROR_INVALID_VALUE;
    return result == CUDA_SUCCESS ? memset_op(&fill, op) : result;
}

static CUresult event_op(const struct node_request *request, struct op **op) {
    if (event_check(request->as.event) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    *op = event_node_op(request->as.event, request->type);
    return CUDA_SUCCESS;
}

static CUresult host_op(const struct node_request *request, struct op **op) {
    if (request->as.host.fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *op = host_call_op(request->as.host.fn, request->as.host.userData);
    return CUDA_SUCCESS;
}

static CUresult batch_op(const struct node_request *request, struct op **op) {
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = request->as.batch;
    struct CUctx_st *context;
    CUresult result = context_or_current(batch.ctx, &context);

    batch.ctx = context;
    return result == CUDA_SUCCESS ? stream_memory_op(&batch, STREAM_MEMORY_V2, op) : result;
}

static CUresult semaphores_op(const struct node_request *request, struct op **op) {
    CUresult result = request->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL
                          ? external_semaphore_signal(&request->as.signals, op)
                          : external_semaphore_wait(&request->as.waits, op);

    return result == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : result;
}

/* NOT_SUPPORTED: it is more than an operation. */
static CUresult make_op(const struct node_request *request, struct op **op) {
    CUresult result;

    switch (request->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        result = kernel_op(request, op);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        result = copy_node_op(request, op);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        result = fill_op(request, op);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        result = host_op(request, op);
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        result = event_op(request, op);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        result = batch_op(request, op);
        break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        result = semaphores_op(request, op);
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (result == CUDA_SUCCESS)
        hazard_note_owners(*op);
    return result;
}

CUresult node_change(const struct CUgraphNode_st *node, const struct node_request *request,
                     struct op **op) {
    sim_check_held();
    return node->type == request->type ? make_op(request, op) : CUDA_ERROR_INVALID_VALUE;
}

/* --- nodes --- */

static CUresult add_op(struct CUgraph_st *graph, const struct node_request *request,
                       struct CUgraphNode_st **node) {
    struct op *op;
    CUresult result = make_op(request, &op);

    if (result != CUDA_SUCCESS)
        return result;
    *node = graph_add(graph, request->type, op);
    op_drop(op);
    return CUDA_SUCCESS;
}

static CUresult check_allocation(const CUDA_MEM_ALLOC_NODE_PARAMS *of) {
    const CUmemPoolProps *pool = &of->poolProps;

    if (!settings()->memory_pools)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (of->bytesize == 0 || (of->accessDescs == NULL && of->accessDescCount != 0) ||
        of->accessDescCount > DEVICES_MAX || pool->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        pool->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return entry_not_simulated("memory of a graph that is not a device's");
    return device_check(pool->location.id) == CUDA_SUCCESS ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
}

static CUresult add_allocation(struct CUgraph_st *graph, const struct node_request *request,
                               struct CUgraphNode_st **node) {
    CUDA_MEM_ALLOC_NODE_PARAMS *of = request->as.allocation.parameters;
    CUresult result = check_allocation(of);
    CUdeviceptr address;
    struct op *op;

    if (result != CUDA_SUCCESS)
        return result;
    op = graph_memory_allocate(graph, of->poolProps.location.id, of->bytesize,
                               request->as.allocation.site, &address);
    if (op == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph_memory_note_accesses(op, of->accessDescs, of->accessDescCount);
    of->dptr = address;
    *node = graph_add(graph, request->type, op);
    op_drop(op);
    return CUDA_SUCCESS;
}

static CUresult add_free(struct CUgraph_st *graph, const struct node_request *request,
                         struct CUgraphNode_st **node) {
    struct block *block = memory_at(request->as.freed);
    struct op *op = block != NULL ? graph_memory_free_node(graph, block) : NULL;

    if (op == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *node = graph_add(graph, request->type, op);
    op_drop(op);
    return CUDA_SUCCESS;
}

/* Whether all nodes of `child` can be in a part of `graph`. */
static CUresult check_types(const struct CUgraph_st *graph, const struct CUgraph_st *child) {
    CUresult result = CUDA_SUCCESS;

    for (size_t i = 0; i < child->count && result == CUDA_SUCCESS; i++) {
        result = graph_check_type(graph, child->nodes[i]->type);
        for (size_t j = 0; j < child->nodes[i]->graph_count && result == CUDA_SUCCESS; j++)
            result = check_types(graph, child->nodes[i]->graphs[j]);
    }
    return result;
}

static bool is_in(const struct CUgraph_st *graph, const struct CUgraph_st *whole) {
    while (graph != whole && graph->parent != NULL)
        graph = graph->parent->graph;
    return graph == whole;
}

/* The graph that a node of `graph` is to have: a copy, or the program's own. */
static CUresult take_child(const struct CUgraph_st *graph, const struct node_request *request,
                           struct CUgraph_st **taken) {
    struct CUgraph_st *child = graph_find(request->as.child.graph);
    bool is_moved = request->as.child.is_moved;
    CUresult result;

    if (child == NULL || graph_is_being_captured(child) || child->was_moved ||
        child->conditional_count != 0 || graph_has(child, NODE_TYPE_CONDITIONAL))
        return CUDA_ERROR_INVALID_VALUE;
    if (is_moved ? child->parent != NULL || is_in(graph, child) : !graph_can_be_copied(child))
        return CUDA_ERROR_INVALID_VALUE;
    result = check_types(graph, child);
    if (result != CUDA_SUCCESS)
        return result;
    *taken = is_moved ? child : graph_clone(child);
    (*taken)->was_moved = is_moved;
    return CUDA_SUCCESS;
}

static CUresult add_child(struct CUgraph_st *graph, const struct node_request *request,
                          struct CUgraphNode_st **node) {
    struct CUgraph_st *child;
    CUresult result = take_child(graph, request, &child);

    if (result != CUDA_SUCCESS)
        return result;
    *node = graph_add(graph, request->type, NULL);
    graph_adopt(*node, child);
    return CUDA_SUCCESS;
}

CUresult node_change_child(struct CUgraphNode_st *node, const struct node_request *request) {
    sim_check_held();
    struct CUgraph_st *child;
    CUresult result;

    if (node->type != CU_GRAPH_NODE_TYPE_GRAPH || graph_is_being_captured(node->graphs[0]) ||
        graph_has_memory_nodes(node->graphs[0]))
        return CUDA_ERROR_INVALID_VALUE;
    result = take_child(node->graph, request, &child);
    if (result != CUDA_SUCCESS)
        return result;
    graph_dispose(node->graphs[0]);
    node->graph_count = 0;
    graph_adopt(node, child);
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12030
static bool is_body_count(unsigned int type, unsigned int size) {
    switch ((CUgraphConditionalNodeType)type) {
    case CU_GRAPH_COND_TYPE_IF:
        return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
        return size == 1;
    default:
        return type <= 2 && size != 0; /* CU_GRAPH_COND_TYPE_SWITCH, of CUDA 12.8 */
    }
}

static CUresult add_conditional(struct CUgraph_st *graph, const struct node_request *request,
                                struct CUgraphNode_st **node) {
    struct conditional *conditional = conditional_find(graph, request->as.conditional.handle);
    unsigned int type = request->as.conditional.type, size = request->as.conditional.size;
    const struct CUgraph_st *root = graph;
    struct CUctx_st *context;
    CUresult result = context_or_current(request->context, &context);

    if (result != CUDA_SUCCESS)
        return result;
    while (root->parent != NULL)
        root = root->parent->graph;
    if (conditional == NULL || !conditional_is_of(conditional, context) ||
        conditional_is_used(root, conditional) || !is_body_count(type, size))
        return CUDA_ERROR_INVALID_VALUE;
    *node = graph_add(graph, request->type, NULL);
    (*node)->conditional = conditional_keep(conditional);
    (*node)->conditional_type = type;
    for (unsigned int i = 0; i < size; i++)
        graph_adopt(*node, graph_create());
    return CUDA_SUCCESS;
}
#endif

CUresult node_add(struct CUgraph_st *graph, const struct node_request *request,
                  struct CUgraphNode_st **node) {
    sim_check_held();
    CUresult result = graph_check_type(graph, request->type);

    if (result != CUDA_SUCCESS)
        return result;
    switch (request->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
        *node = graph_add(graph, request->type, NULL);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return add_child(graph, request, node);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return add_allocation(graph, request, node);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return add_free(graph, request, node);
#if CUDA_VERSION >= 12030
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return add_conditional(graph, request, node);
#endif
    default:
        return request->type <= NODE_TYPE_CONDITIONAL ? add_op(graph, request, node)
                                                      : entry_not_simulated("such a node");
    }
}

/* --- changes --- */

/* Who owns memory is not always known. */
static bool is_same_home(const struct memory_home *a, const struct memory_home *b) {
    return a->kind == b->kind && (a->kind == HOME_HOST || a->device == b->device) &&
           (a->context == NULL || b->context == NULL || a->context == b->context);
}

/* "For 2d memsets, all dimension changes are rejected. For 1d memsets, changes in height." */
static bool is_same_shape(const struct fill *a, const struct fill *b) {
    return a->rows == b->rows && (a->rows == 1 || (a->width == b->width && a->pitch == b->pitch &&
                                                   a->element == b->element));
}

CUgraphExecUpdateResult node_check_change(const struct op *from, const struct op *to) {
    sim_check_held();
    switch (from->node_type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return from->as.kernel.told.ctx == to->as.kernel.told.ctx
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return is_same_home(&from->as.copy.to.home, &to->as.copy.to.home) &&
                       is_same_home(&from->as.copy.from.home, &to->as.copy.from.home)
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return is_same_home(&from->as.fill.home, &to->as.fill.home) &&
                       is_same_shape(&from->as.fill, &to->as.fill)
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return stream_memory_may_become(from, to) ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                                  : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return from->as.values.count == to->as.values.count
                   ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                   : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return graph_memory_same(from, to) ? CU_GRAPH_EXEC_UPDATE_SUCCESS
                                           : CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    default:
        return CU_GRAPH_EXEC_UPDATE_SUCCESS;
    }
}

/* --- what nodes answer --- */

static size_t told_height(const struct copy_side *side) {
    return side->pitch != 0 ? side->slice / side->pitch : 0;
}

CUDA_MEMCPY3D node_copy_told(const struct op *op) {
    sim_check_held();
    const struct copy *copy = &op->as.copy;
    const struct copy_side *to = &copy->to, *from = &copy->from;
    bool to_host = to->home.kind == HOME_HOST, from_host = from->home.kind == HOME_HOST;

    if (copy->given != NULL)
        return *copy->given;
    return (CUDA_MEMCPY3D){.srcMemoryType = from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                           .srcHost = from_host ? (void *)(uintptr_t)from->address : NULL,
                           .srcDevice = from_host ? 0 : from->address,
                           .srcPitch = from->pitch,
                           .srcHeight = told_height(from),
                           .dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                           .dstHost = to_host ? (void *)(uintptr_t)to->address : NULL,
                           .dstDevice = to_host ? 0 : to->address,
                           .dstPitch = to->pitch,
                           .dstHeight = told_height(to),
                           .WidthInBytes = copy->width,
                           .Height = copy->rows,
                           .Depth = copy->slices};
}

CUDA_MEMSET_NODE_PARAMS_v1 node_fill_told(const struct op *op) {
    sim_check_held();
    const struct fill *fill = &op->as.fill;

    return (CUDA_MEMSET_NODE_PARAMS_v1){.dst = fill->address,
                                        .pitch = fill->pitch,
                                        .value = fill->value,
                                        .elementSize = fill->element,
                                        .width = fill->width,
                                        .height = fill->rows};
}

/* --- edges --- */

/* Programmatic edges lead from one of a kernel's other ports to a kernel. */
bool node_edge_is_valid(const CUgraphEdgeData *data, const struct CUgraphNode_st *from,
                        CUgraphNodeType to) {
    sim_check_held();
    enum { PLAIN, PROGRAMMATIC, LAST_PORT };

    if (data == NULL)
        return true;
    for (size_t i = 0; i < sizeof data->reserved; i++)
        if (data->reserved[i] != 0)
            return false;
    if (data->type == PLAIN)
        return data->from_port == 0 && data->to_port == 0;
    return data->type == PROGRAMMATIC && data->from_port >= 1 && data->from_port <= LAST_PORT &&
           data->to_port == 0 && from->type == CU_GRAPH_NODE_TYPE_KERNEL &&
           to == CU_GRAPH_NODE_TYPE_KERNEL;
}
