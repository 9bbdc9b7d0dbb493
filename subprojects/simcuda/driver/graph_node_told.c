/* What a node of any type answers when it is asked for all that describes it. */
#include "conditional.h"
#include "entry.h"
#include "graph_memory.h"
#include "graph_node.h"
#include "lock.h"

#include <string.h>

#if CUDA_VERSION >= 12030 /* older headers lack the types */
static void tell_fill(const struct op *op, CUDA_MEMSET_NODE_PARAMS_v2 *told) {
    const CUDA_MEMSET_NODE_PARAMS_v1 fill = node_fill_told(op);

    told->dst = fill.dst;
    told->pitch = fill.pitch;
    told->value = fill.value;
    told->elementSize = fill.elementSize;
    told->width = fill.width;
    told->height = fill.height;
}

static void tell_allocation(const struct op *op, CUDA_MEM_ALLOC_NODE_PARAMS_v2 *told) {
    const CUDA_MEM_ALLOC_NODE_PARAMS allocation = graph_memory_told(op);

    _Static_assert(sizeof allocation == sizeof *told, "the second form is the first");
    memcpy(told, &allocation, sizeof allocation);
}

static void tell_child(const struct CUgraphNode_st *node, CUDA_CHILD_GRAPH_NODE_PARAMS *told) {
    told->graph = node->graphs[0];
#if CUDA_VERSION >= 12090
    told->ownership = node->graphs[0]->was_moved ? CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE
                                                 : CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
#endif
}

/* The bodies' array is the node's. */
static void tell_conditional(const struct CUgraphNode_st *node,
                             CUDA_CONDITIONAL_NODE_PARAMS *told) {
    told->handle = conditional_handle(node->conditional);
    told->ctx = conditional_context(node->conditional);
    told->type = (CUgraphConditionalNodeType)node->conditional_type;
    told->size = (unsigned int)node->graph_count;
    told->phGraph_out = node->graphs;
}

static void tell_values(const union values_told *values, CUgraphNodeParams *told) {
    if (told->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL) {
        told->extSemSignal.extSemArray = values->signals.extSemArray;
        told->extSemSignal.paramsArray = values->signals.paramsArray;
        told->extSemSignal.numExtSems = values->signals.numExtSems;
    } else if (told->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT) {
        told->extSemWait.extSemArray = values->waits.extSemArray;
        told->extSemWait.paramsArray = values->waits.paramsArray;
        told->extSemWait.numExtSems = values->waits.numExtSems;
    } else {
        told->memOp.ctx = values->batch.ctx;
        told->memOp.count = values->batch.count;
        told->memOp.paramArray = values->batch.paramArray;
        told->memOp.flags = values->batch.flags;
    }
}

/* Contexts of copies and fills are not kept: NULL is any (assumed). */
static void tell(const struct CUgraphNode_st *node, CUgraphNodeParams *told) {
    const struct op *op = node->op;

    memset(told, 0, sizeof *told);
    told->type = node->type;
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        memcpy(&told->kernel, &op->as.kernel.told, sizeof told->kernel);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        told->memcpy.copyParams = node_copy_told(op);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        tell_fill(op, &told->memset);
        break;
    case CU_GRAPH_NODE_TYPE_HOST:
        told->host.fn = op->as.host.function;
        told->host.userData = op->as.host.data;
        break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
        tell_child(node, &told->graph);
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        told->eventWait.event = op->as.event;
        break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        told->eventRecord.event = op->as.event;
        break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        tell_values(&op->as.values.told, told);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        tell_allocation(op, &told->alloc);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        told->free.dptr = graph_memory_address(op);
        break;
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        tell_conditional(node, &told->conditional);
        break;
    default:
        break;
    }
}

SIM_EXPORT CUresult cuGraphNodeGetParams(CUgraphNode handle, CUgraphNodeParams *told) {
    const struct CUgraphNode_st *node;

    ENTER(cuGraphNodeGetParams);
    if (told == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    node = graph_find_node(handle);
    if (node != NULL)
        tell(node, told);
    sim_unlock();
    return node != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif
