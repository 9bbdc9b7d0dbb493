#include "conditional.h"

#include "allocate.h"
#include "graph.h"
#include "lock.h"

#include <stdlib.h>

/* Only one executable graph has it at a time, so that one value is enough. Invariant: one of at
 * least one graph's, or of an operation's. */
struct conditional {
    unsigned int references;
    uint64_t handle;
    struct CUctx_st *context;
    unsigned int value; /* read and written by work, without the lock */
    unsigned int at_launch;
    bool is_assigned; /* at_launch is its value when a launch begins */
    UT_hash_handle by_handle;
};

static struct conditional *conditionals; /* all, by handle */

struct conditional *conditional_keep(struct conditional *conditional) {
    sim_check_held();
    conditional->references++;
    return conditional;
}

void conditional_drop(struct conditional *conditional) {
    sim_check_held();
    if (--conditional->references != 0)
        return;
    HASH_DELETE(by_handle, conditionals, conditional);
    free(conditional);
}

static const struct CUgraph_st *root_of(const struct CUgraph_st *graph) {
    while (graph->parent != NULL)
        graph = graph->parent->graph;
    return graph;
}

struct conditional *conditional_find(const struct CUgraph_st *graph, uint64_t handle) {
    sim_check_held();
    const struct CUgraph_st *root = root_of(graph);

    for (size_t i = 0; i < root->conditional_count; i++)
        if (root->conditionals[i]->handle == handle)
            return root->conditionals[i];
    return NULL;
}

bool conditional_is_of(const struct conditional *conditional, const struct CUctx_st *context) {
    sim_check_held();
    return conditional->context == context;
}

uint64_t conditional_handle(const struct conditional *conditional) {
    sim_check_held();
    return conditional->handle;
}

void conditional_attach(struct CUgraph_st *graph, struct conditional *conditional) {
    sim_check_held();
    graph->conditionals =
        allocate_again(graph->conditionals, (graph->conditional_count + 1) * sizeof(void *));
    graph->conditionals[graph->conditional_count++] = conditional_keep(conditional);
}

bool conditional_is_used(const struct CUgraph_st *graph, const struct conditional *conditional) {
    sim_check_held();
    bool used = false;

    for (size_t i = 0; i < graph->count && !used; i++) {
        used = graph->nodes[i]->conditional == conditional;
        for (size_t j = 0; j < graph->nodes[i]->graph_count && !used; j++)
            used = conditional_is_used(graph->nodes[i]->graphs[j], conditional);
    }
    return used;
}

bool conditional_set(uint64_t handle, unsigned int value) {
    sim_check_none();
    struct conditional *conditional;

    sim_lock();
    HASH_FIND(by_handle, conditionals, &handle, sizeof handle, conditional);
    if (conditional != NULL)
        __atomic_store_n(&conditional->value, value, __ATOMIC_RELEASE);
    sim_unlock();
    return conditional != NULL;
}

/* --- operations --- */

#if CUDA_VERSION >= 12030
/* Which of `count` bodies the value chooses; `count`: none. */
static size_t choose(CUgraphConditionalNodeType type, unsigned int value, size_t count) {
    size_t body = value;

    if (type == CU_GRAPH_COND_TYPE_IF)
        body = value != 0 ? 0 : 1;
    else if (type == CU_GRAPH_COND_TYPE_WHILE)
        body = value != 0 ? 0 : count;
    return body < count ? body : count;
}

static CUresult run(struct op *op) {
    const struct conditional *conditional = op->as.conditional.conditional;
    CUgraphConditionalNodeType type = (CUgraphConditionalNodeType)op->as.conditional.type;
    CUresult result = CUDA_SUCCESS;
    size_t body;

    do {
        body =
            choose(type, __atomic_load_n(&conditional->value, __ATOMIC_ACQUIRE), op->child_count);
        if (body != op->child_count)
            result = op->children[body]->run(op->children[body]);
    } while (type == CU_GRAPH_COND_TYPE_WHILE && body != op->child_count && result == CUDA_SUCCESS);
    return result;
}

static void dispose(struct op *op) {
    conditional_drop(op->as.conditional.conditional);
}

struct op *conditional_op(const struct CUgraphNode_st *node, struct op **bodies) {
    sim_check_held();
    struct op *op = op_create("conditional", run);

    op->as.conditional.conditional = conditional_keep(node->conditional);
    op->as.conditional.type = node->conditional_type;
    op->dispose = dispose;
    op->children = bodies;
    op->child_count = node->graph_count;
    return op;
}

static CUresult run_defaults(struct op *op) {
    for (size_t i = 0; i < op->as.conditionals.count; i++) {
        struct conditional *conditional = op->as.conditionals.items[i];

        if (conditional->is_assigned)
            __atomic_store_n(&conditional->value, conditional->at_launch, __ATOMIC_RELEASE);
    }
    return CUDA_SUCCESS;
}

static void dispose_defaults(struct op *op) {
    for (size_t i = 0; i < op->as.conditionals.count; i++)
        conditional_drop(op->as.conditionals.items[i]);
    free(op->as.conditionals.items);
}

struct op *conditional_defaults_op(const struct CUgraph_st *graph) {
    sim_check_held();
    struct op *op;

    if (graph->conditional_count == 0)
        return NULL;
    op = op_create("conditional defaults", run_defaults);
    op->dispose = dispose_defaults;
    op->as.conditionals.items = allocate_zeroed(graph->conditional_count * sizeof(void *));
    for (size_t i = 0; i < graph->conditional_count; i++)
        op->as.conditionals.items[op->as.conditionals.count++] =
            conditional_keep(graph->conditionals[i]);
    return op;
}

/* --- entry points --- */

static CUresult create(CUgraphConditionalHandle *out, CUgraph handle, CUcontext context_handle,
                       unsigned int at_launch, unsigned int flags) {
    static uint64_t last_handle;
    struct conditional *conditional;
    struct CUctx_st *context;
    CUresult result = context_or_current(context_handle, &context);

    if (result == CUDA_SUCCESS && graph_find(handle) == NULL)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    conditional = allocate_zeroed(sizeof *conditional);
    conditional->handle = ++last_handle;
    conditional->context = context;
    conditional->at_launch = at_launch;
    conditional->is_assigned = (flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0;
    HASH_ADD(by_handle, conditionals, handle, sizeof conditional->handle, conditional);
    while (handle->parent != NULL)
        handle = handle->parent->graph;
    conditional_attach(handle, conditional);
    *out = conditional->handle;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph,
                                                   CUcontext context, unsigned int at_launch,
                                                   unsigned int flags) {
    CUresult result;

    ENTER(cuGraphConditionalHandleCreate);
    if (out == NULL || (flags & ~(unsigned int)CU_GRAPH_COND_ASSIGN_DEFAULT) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = create(out, graph, context, at_launch, flags);
    sim_unlock();
    return result;
}
#else /* older headers lack the types, so that nothing makes a conditional */
struct op *conditional_op(const struct CUgraphNode_st *node, struct op **bodies) {
    sim_check_held();
    (void)node, (void)bodies;
    return NULL;
}

struct op *conditional_defaults_op(const struct CUgraph_st *graph) {
    sim_check_held();
    (void)graph;
    return NULL;
}
#endif
