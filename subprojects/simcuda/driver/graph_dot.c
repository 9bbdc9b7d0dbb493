/* cuGraphDebugDotPrint. */
#include "entry.h"
#include "graph.h"
#include "graph_memory.h"
#include "graph_node.h"
#include "kernels.h"
#include "lock.h"

#include <inttypes.h>
#include <stdio.h>

static const char *name_of(CUgraphNodeType type) {
    static const char *const names[] = {"KERNEL",         "MEMCPY",       "MEMSET",
                                        "HOST",           "GRAPH",        "EMPTY",
                                        "EVENT_WAIT",     "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
                                        "EXT_SEMAS_WAIT", "MEM_ALLOC",    "MEM_FREE",
                                        "BATCH_MEM_OP",   "CONDITIONAL"};

    return (size_t)type < sizeof names / sizeof *names ? names[type] : "NODE";
}

static bool is_asked(unsigned int flags, CUgraphDebugDot_flags which) {
    return (flags & ((unsigned int)which | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE)) != 0;
}

static void print_kernel(FILE *file, const struct op *op, unsigned int flags) {
    const struct kernel_call *call = &op->as.kernel;
    const CUDA_KERNEL_NODE_PARAMS_v2 *told = &call->told;

    fprintf(file, "\\n%s", op->name);
    if (is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
        fprintf(file, "\\n<<<(%u,%u,%u),(%u,%u,%u),%u>>>", told->gridDimX, told->gridDimY,
                told->gridDimZ, told->blockDimX, told->blockDimY, told->blockDimZ,
                told->sharedMemBytes);
    if (is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
        fprintf(file, "\\nfunc handle: %p", (void *)call->function);
}

static void print_copy(FILE *file, const struct op *op, unsigned int flags) {
    const struct copy *copy = &op->as.copy;

    fprintf(file, "\\n(%s to %s)", copy->from.home.kind == HOME_HOST ? "HOST" : "DEVICE",
            copy->to.home.kind == HOME_HOST ? "HOST" : "DEVICE");
    if (is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
        fprintf(file, "\\nsrc 0x%llx dst 0x%llx\\n%zu x %zu x %zu",
                (unsigned long long)copy->from.address, (unsigned long long)copy->to.address,
                copy->width, copy->rows, copy->slices);
}

static void print_fill(FILE *file, const struct fill *fill, unsigned int flags) {
    if (is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
        fprintf(file, "\\ndst 0x%llx value %" PRIu32 "\\n%zu x %zu of %u",
                (unsigned long long)fill->address, fill->value, fill->width, fill->rows,
                fill->element);
}

static void print_allocation(FILE *file, const struct op *op, unsigned int flags) {
    const CUDA_MEM_ALLOC_NODE_PARAMS told = graph_memory_told(op);

    if (is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
        fprintf(file, "\\n0x%llx, %zu bytes", (unsigned long long)told.dptr, told.bytesize);
}

static const char *name_of_step(CUstreamBatchMemOpType operation) {
    switch (operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return "wait";
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return "write";
    case CU_STREAM_MEM_OP_BARRIER:
        return "barrier";
    default:
        return "flush";
    }
}

static void print_batch(FILE *file, const CUDA_BATCH_MEM_OP_NODE_PARAMS *batch,
                        unsigned int flags) {
    if (!is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS))
        return;
    for (unsigned int i = 0; i < batch->count; i++) {
        const CUstreamBatchMemOpParams *step = &batch->paramArray[i];
        bool has_value = step->operation != CU_STREAM_MEM_OP_BARRIER &&
                         step->operation != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
        bool is_wide = step->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                       step->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;

        fprintf(file, "\\n%s", name_of_step(step->operation));
        if (has_value) /* a wait's and a write's stand in the same places */
            fprintf(file, " 0x%llx value %llu", (unsigned long long)step->waitValue.address,
                    is_wide ? (unsigned long long)step->waitValue.value64
                            : (unsigned long long)step->waitValue.value);
    }
}

static void print_signals(FILE *file, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *signals,
                          unsigned int flags) {
    if (!is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EXT_SEMAS_SIGNAL_NODE_PARAMS))
        return;
    for (unsigned int i = 0; i < signals->numExtSems; i++)
        fprintf(file, "\\nsemaphore %p value %llu", (void *)signals->extSemArray[i],
                signals->paramsArray[i].params.fence.value);
}

static void print_waits(FILE *file, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *waits,
                        unsigned int flags) {
    if (!is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EXT_SEMAS_WAIT_NODE_PARAMS))
        return;
    for (unsigned int i = 0; i < waits->numExtSems; i++)
        fprintf(file, "\\nsemaphore %p value %llu", (void *)waits->extSemArray[i],
                waits->paramsArray[i].params.fence.value);
}

static void print_details(FILE *file, const struct CUgraphNode_st *node, unsigned int flags) {
    switch (node->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        print_kernel(file, node->op, flags);
        break;
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        print_copy(file, node->op, flags);
        break;
    case CU_GRAPH_NODE_TYPE_MEMSET:
        print_fill(file, &node->op->as.fill, flags);
        break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        print_allocation(file, node->op, flags);
        break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        if (is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS))
            fprintf(file, "\\nevent %p", (void *)node->op->as.event);
        break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        print_batch(file, &node->op->as.values.told.batch, flags);
        break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
        print_signals(file, &node->op->as.values.told.signals, flags);
        break;
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        print_waits(file, &node->op->as.values.told.waits, flags);
        break;
    default:
        break;
    }
}

/* The graphs in nodes are clusters of their own, to which the node leads. */
static void print_graph(FILE *file, const struct CUgraph_st *graph, unsigned int flags) {
    fprintf(file, "subgraph cluster_%" PRIu64 " {\nlabel=\"graph_%" PRIu64 "\"\n", graph->id,
            graph->id);
    for (size_t i = 0; i < graph->count; i++) {
        const struct CUgraphNode_st *node = graph->nodes[i];

        fprintf(file, "\"graph_%" PRIu64 "_node_%zu\" [shape=\"record\" label=\"%zu\\n%s",
                graph->id, i, i, name_of(node->type));
        print_details(file, node, flags);
        if (is_asked(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
            fprintf(file, "\\nnode handle: %p", (const void *)node);
        fprintf(file, "\"];\n");
        for (size_t j = 0; j < node->graph_count; j++)
            print_graph(file, node->graphs[j], flags);
    }
    for (size_t i = 0; i < graph->count; i++)
        for (size_t j = 0; j < graph->nodes[i]->edge_count; j++)
            fprintf(file, "\"graph_%" PRIu64 "_node_%zu\" -> \"graph_%" PRIu64 "_node_%zu\";\n",
                    graph->id, graph->nodes[i]->edges[j].from->index, graph->id, i);
    fprintf(file, "}\n");
}

SIM_EXPORT CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags) {
    CUresult result = CUDA_SUCCESS;
    FILE *file;

    ENTER(cuGraphDebugDotPrint);
    if (path == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (graph_find(graph) == NULL) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if ((file = fopen(path, "we")) == NULL) {
        result = CUDA_ERROR_OPERATING_SYSTEM;
    } else {
        fprintf(file, "digraph dot {\n");
        print_graph(file, graph, flags);
        fprintf(file, "}\n");
        if (fclose(file) != 0)
            result = CUDA_ERROR_OPERATING_SYSTEM;
    }
    sim_unlock();
    return result;
}
