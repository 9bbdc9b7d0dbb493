/* Conditional nodes: which of their bodies run, and what can be in these. */
#include "test_graph.h"

static CUdeviceptr word;

/* cudaGraphSetConditional(%h, %v), by one thread */
#define SET_CONDITIONAL                                                                            \
    "  { .param .b64 h; .param .b32 v; st.param.b64 [h], %h; st.param.b32 [v], %v;\n"              \
    "  call cudaGraphSetConditional, (h, v); }\n"

static const char conditional_ptx[] =
    ".version 7.0\n"
    ".target sm_52\n"
    ".address_size 64\n"
    ".extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);\n"
    ".visible .entry set_conditional(.param .u64 handle, .param .u32 value) {\n"
    "  .reg .b32 %v; .reg .b64 %h;\n"
    "  ld.param.u64 %h, [handle]; ld.param.u32 %v, [value];\n" SET_CONDITIONAL "  ret;\n}\n"
    /* *count -= 1, and whether that leaves any is the value */
    ".visible .entry loop_conditional(.param .u64 handle, .param .u64 count) {\n"
    "  .reg .pred %p; .reg .b32 %v; .reg .b64 %h, %c;\n"
    "  ld.param.u64 %h, [handle]; ld.param.u64 %c, [count];\n"
    "  ld.global.u32 %v, [%c]; sub.u32 %v, %v, 1; st.global.u32 [%c], %v;\n"
    "  setp.ne.u32 %p, %v, 0; selp.u32 %v, 1, 0, %p;\n" SET_CONDITIONAL "  ret;\n}\n";
static CUmodule conditional_module;

static CUgraphConditionalHandle create_handle(CUgraph graph, unsigned int value) {
    CUgraphConditionalHandle handle;

    assert_ok(cuGraphConditionalHandleCreate(&handle, graph, test_context, value,
                                             CU_GRAPH_COND_ASSIGN_DEFAULT));
    return handle;
}

static CUgraphNodeParams conditional(CUgraphConditionalHandle handle,
                                     CUgraphConditionalNodeType type, unsigned int size) {
    CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};

    parameters.conditional.handle = handle;
    parameters.conditional.type = type;
    parameters.conditional.size = size;
    parameters.conditional.ctx = test_context;
    return parameters;
}

/* Adds a node; its bodies are the result. */
static CUgraph *add_conditional(CUgraph graph, CUgraphConditionalHandle handle,
                                CUgraphConditionalNodeType type, unsigned int size) {
    CUgraphNodeParams parameters = conditional(handle, type, size);
    CUgraphNode node;

    assert_ok(cuGraphAddNode(&node, graph, NULL, 0, &parameters));
    assert_non_null(parameters.conditional.phGraph_out);
    return parameters.conditional.phGraph_out;
}

static CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, const char *name,
                              void **parameters) {
    CUDA_KERNEL_NODE_PARAMS_v2 kernel = kernel_node("fill_u32", parameters);
    CUgraphNode node;

    assert_ok(cuModuleGetFunction(&kernel.func, conditional_module, name));
    assert_ok(cuGraphAddKernelNode_v2(&node, graph, &after, after != NULL ? 1 : 0, &kernel));
    return node;
}

/* What a graph with two bodies, which set the word to 1 and 2, leaves there. */
static uint32_t chosen(CUgraphConditionalNodeType type, unsigned int value) {
    CUgraph graph = create_graph();
    CUgraph *bodies = add_conditional(graph, create_handle(graph, value), type, 2);

    assert_ok(cuMemsetD32_v2(word, 0, 1));
    add_fill(bodies[0], NULL, word, 1);
    add_fill(bodies[1], NULL, word, 2);
    run_once(graph);
    return read_word(word);
}

static void test_the_value_chooses_a_body(void **state) {
    (void)state;
    assert_int_equal(chosen(CU_GRAPH_COND_TYPE_IF, 7), 1);
    assert_int_equal(chosen(CU_GRAPH_COND_TYPE_IF, 0), 2);
#if CUDA_VERSION >= 12080
    assert_int_equal(chosen(CU_GRAPH_COND_TYPE_SWITCH, 0), 1);
    assert_int_equal(chosen(CU_GRAPH_COND_TYPE_SWITCH, 1), 2);
    assert_int_equal(chosen(CU_GRAPH_COND_TYPE_SWITCH, 2), 0);
#endif
}

static void test_a_kernel_sets_the_value(void **state) {
    CUgraph graph = create_graph(), *bodies;
    CUgraphConditionalHandle handle = create_handle(graph, 1);
    CUgraphNodeParams parameters = conditional(handle, CU_GRAPH_COND_TYPE_IF, 1);
    uint32_t value = 0;
    CUgraphNode set = add_kernel(graph, NULL, "set_conditional", (void *[]){&handle, &value});
    CUgraphNode node;
    CUgraphExec executable;

    (void)state;
    assert_ok(cuGraphAddNode(&node, graph, &set, 1, &parameters));
    bodies = parameters.conditional.phGraph_out;
    add_fill(bodies[0], NULL, word, 5);
    assert_ok(cuMemsetD32_v2(word, 0, 1));
    executable = instantiate(graph);
    run_graph(executable);
    assert_int_equal(read_word(word), 0);
    assert_ok(cuGraphNodeSetEnabled(executable, set, 0)); /* then the value is the default again */
    run_graph(executable);
    assert_int_equal(read_word(word), 5);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
}

static void test_a_loop_ends(void **state) {
    CUgraph graph = create_graph(), *body;
    CUgraphConditionalHandle handle = create_handle(graph, 1);
    CUdeviceptr count = word + 64, sum = word + 128, one = word + 192;
    uint64_t length = 1;
    CUDA_KERNEL_NODE_PARAMS_v2 add;
    CUgraphExec executable;
    CUgraphNode node;

    (void)state;
    body = add_conditional(graph, handle, CU_GRAPH_COND_TYPE_WHILE, 1);
    add = kernel_node("add_u32", (void *[]){&sum, &sum, &one, &length});
    assert_ok(cuGraphAddKernelNode_v2(&node, body[0], NULL, 0, &add));
    add_kernel(body[0], node, "loop_conditional", (void *[]){&handle, &count});
    executable = instantiate(graph);
    assert_ok(cuMemsetD32_v2(sum, 0, 1));
    assert_ok(cuMemsetD32_v2(one, 1, 1));
    for (uint32_t launches = 1; launches <= 2; launches++) {
        assert_ok(cuMemsetD32_v2(count, 10, 1));
        run_graph(executable);
        assert_int_equal(read_word(sum), 10 * launches);
    }
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(simcuda_hazards(), 0);
}

static void test_bodies_in_bodies(void **state) {
    CUgraph graph = create_graph(), *outer, *inner, copy;

    (void)state;
    outer = add_conditional(graph, create_handle(graph, 1), CU_GRAPH_COND_TYPE_IF, 1);
    inner = add_conditional(outer[0], create_handle(outer[0], 1), CU_GRAPH_COND_TYPE_IF, 1);
    add_fill(inner[0], NULL, word, 17);
    assert_int_equal(cuGraphClone(&copy, outer[0]), CUDA_ERROR_INVALID_VALUE);
    run_once(graph);
    assert_int_equal(read_word(word), 17);
}

static void host_function(void *data) {
    (void)data;
}

static void test_what_cannot_be_in_a_body(void **state) {
    CUDA_HOST_NODE_PARAMS_v1 host = {host_function, NULL};
    CUgraph graph = create_graph(), child = create_graph(), *bodies;
    CUstream stream;
    CUgraphNode node;
    CUgraph ended;

    (void)state;
    bodies = add_conditional(graph, create_handle(graph, 1), CU_GRAPH_COND_TYPE_IF, 1);
    assert_int_equal(cuGraphAddHostNode(&node, bodies[0], NULL, 0, &host),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuGraphAddHostNode(&node, child, NULL, 0, &host));
    assert_int_equal(cuGraphAddChildGraphNode(&node, bodies[0], NULL, 0, child),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuGraphDestroy(bodies[0]), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamBeginCaptureToGraph(stream, bodies[0], NULL, NULL, 0,
                                          CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(launch_fill(stream, word, 1, 23));
    assert_int_equal(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE); /* it is captured into */
    assert_ok(cuStreamEndCapture(stream, &ended));
    assert_ptr_equal(ended, bodies[0]);
    assert_ok(cuStreamBeginCaptureToGraph(stream, bodies[0], NULL, NULL, 0,
                                          CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(cuLaunchHostFunc(stream, host_function, NULL), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &ended), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuGraphDestroy(child));
    run_once(graph);
    assert_int_equal(read_word(word), 23);
}

static void test_conditionals_that_cannot_be(void **state) {
    CUgraph graph = create_graph(), elsewhere = create_graph(), copy;
    CUgraphConditionalHandle handle = create_handle(graph, 1), unused;
    CUDA_GRAPH_INSTANTIATE_PARAMS instantiation = {.flags = 0};
    CUgraphNodeParams parameters = conditional(handle, CU_GRAPH_COND_TYPE_WHILE, 2);
    CUgraphExec executable, second;
    CUgraphNode node;

    (void)state;
    assert_int_equal(cuGraphConditionalHandleCreate(&unused, graph, test_context, 0, 8),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddNode(&node, graph, NULL, 0, &parameters), CUDA_ERROR_INVALID_VALUE);
    parameters = conditional(handle, CU_GRAPH_COND_TYPE_IF, 1);
    assert_int_equal(cuGraphAddNode(&node, elsewhere, NULL, 0, &parameters),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphInstantiateWithParams(&executable, graph, &instantiation),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(instantiation.result_out, 5); /* the handle is of no node */
    assert_ok(cuGraphAddNode(&node, graph, NULL, 0, &parameters));
    assert_int_equal(cuGraphAddNode(&node, graph, NULL, 0, &parameters), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphClone(&copy, graph), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddChildGraphNode(&node, elsewhere, NULL, 0, graph),
                     CUDA_ERROR_INVALID_VALUE);
    executable = instantiate(graph);
    assert_int_equal(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(elsewhere));
}

/* The other graph's handles come along: its kernels set those. */
static void test_an_update_brings_its_own_values(void **state) {
    CUgraph graph = create_graph(), next = create_graph(), *bodies;
    CUgraphExecUpdateResultInfo info;
    CUgraphExec executable;

    (void)state;
    bodies = add_conditional(graph, create_handle(graph, 1), CU_GRAPH_COND_TYPE_IF, 1);
    add_fill(bodies[0], NULL, word, 1);
    bodies = add_conditional(next, create_handle(next, 0), CU_GRAPH_COND_TYPE_IF, 1);
    add_fill(bodies[0], NULL, word, 2);
    executable = instantiate(graph);
    assert_ok(cuGraphExecUpdate_v2(executable, next, &info));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(next));
    assert_ok(cuMemsetD32_v2(word, 0, 1));
    run_graph(executable);
    assert_int_equal(read_word(word), 0);
    assert_ok(cuGraphExecDestroy(executable));
}

static int set_up(void **state) {
    int result = set_up_context(state);

    assert_ok(cuModuleLoadData(&conditional_module, conditional_ptx));
    word = allocate_word();
    return result;
}

static int tear_down(void **state) {
    assert_ok(cuMemFree_v2(word));
    assert_ok(cuModuleUnload(conditional_module));
    return tear_down_context(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_value_chooses_a_body),
        cmocka_unit_test(test_a_kernel_sets_the_value),
        cmocka_unit_test(test_a_loop_ends),
        cmocka_unit_test(test_bodies_in_bodies),
        cmocka_unit_test(test_what_cannot_be_in_a_body),
        cmocka_unit_test(test_conditionals_that_cannot_be),
        cmocka_unit_test(test_an_update_brings_its_own_values),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
