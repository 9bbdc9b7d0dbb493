/* Executable graphs that are changed: by single nodes, by whole graphs, and by what is passed over.
 */
#include "test_graph.h"

#include <pthread.h>

static CUdeviceptr word, other;

/* Whether the update works out, and why not. */
static CUgraphExecUpdateResultInfo update(CUgraphExec executable, CUgraph graph) {
    CUgraphExecUpdateResultInfo info;
    CUresult result = cuGraphExecUpdate_v2(executable, graph, &info);

    assert_int_equal(result, info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS
                                 ? CUDA_SUCCESS
                                 : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    return info;
}

static void test_an_update_takes_over_what_nodes_do(void **state) {
    CUgraph graph = create_graph(), next = create_graph();
    CUgraphNode node, error_node = add_fill(graph, NULL, word, 1);
    CUgraphExecUpdateResult reason;
    CUgraphExec executable;

    (void)state;
    add_fill(graph, error_node, other, 2);
    executable = instantiate(graph);
    /* the nodes are paired by their edges, not by when they were made */
    node = add_fill(next, NULL, other, 4);
    assert_ok(
        cuGraphAddDependencies(next, &(CUgraphNode){add_fill(next, NULL, word, 3)}, &node, 1));
    assert_int_equal(update(executable, next).result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    run_graph(executable);
    assert_int_equal(read_word(word), 3);
    assert_int_equal(read_word(other), 4);
    assert_ok(cuGraphExecUpdate(executable, graph, &error_node, &reason)); /* the first form */
    assert_int_equal(reason, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    assert_null(error_node);
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(next));
    run_graph(executable);
    assert_int_equal(read_word(word), 1);
    assert_ok(cuGraphExecDestroy(executable));
}

static void test_another_shape_is_refused(void **state) {
    CUgraph graph = create_graph(), more = create_graph(), loose = create_graph();
    CUgraph types = create_graph();
    CUgraphNode first = add_fill(graph, NULL, word, 1), node;
    CUgraphExecUpdateResultInfo info;
    CUgraphExec executable;

    (void)state;
    add_fill(graph, first, word, 2);
    executable = instantiate(graph);
    add_fill(more, NULL, word, 3);
    info = update(executable, more);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    assert_null(info.errorNode);
    add_fill(loose, NULL, word, 3);
    node = add_fill(loose, NULL, word, 4);
    info = update(executable, loose);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    assert_ptr_equal(info.errorNode, node); /* one exit too many */
    first = add_fill(types, NULL, word, 5);
    assert_ok(cuGraphAddEmptyNode(&node, types, &first, 1));
    info = update(executable, types);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
    assert_ptr_equal(info.errorNode, node);
    run_graph(executable); /* nothing was changed, the first node neither */
    assert_int_equal(read_word(word), 2);
    assert_int_equal(cuGraphExecUpdate_v2(executable, NULL, &info), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(more));
    assert_ok(cuGraphDestroy(loose));
    assert_ok(cuGraphDestroy(types));
}

static void test_what_a_node_may_not_become(void **state) {
    CUDA_MEMSET_NODE_PARAMS_v1 fill = memset_node(word, 1);
    CUgraph graph = create_graph(), next = create_graph();
    CUgraphNode node, changed;
    CUlaunchAttributeValue cooperative = {.cooperative = 1};
    CUgraphExecUpdateResultInfo info;
    CUgraphExec executable;

    (void)state;
    fill.height = 2;
    fill.pitch = 512;
    assert_ok(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, test_context));
    add_fill(graph, NULL, other, 1);
    executable = instantiate(graph);
    fill.width = 2;
    assert_ok(cuGraphAddMemsetNode(&changed, next, NULL, 0, &fill, test_context));
    node = add_fill(next, NULL, other, 2);
    info = update(executable, next);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    assert_ptr_equal(info.errorNode, changed);
    fill.width = 1;
    assert_ok(cuGraphMemsetNodeSetParams(changed, &fill));
    assert_int_equal(update(executable, next).result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    assert_ok(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative));
    info = update(executable, next);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED);
    assert_ptr_equal(info.errorNode, node);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(next));
}

static void test_copies_and_fills_in_executable_graphs(void **state) {
    CUDA_MEMSET_NODE_PARAMS_v1 fill = memset_node(word, 1);
    CUDA_MEMCPY3D copy = copy_node(other, word);
    CUgraph graph = create_graph();
    CUgraphNode filled, copied;
    CUgraphExec executable;
    uint32_t value = 0;

    (void)state;
    assert_ok(cuGraphAddMemsetNode(&filled, graph, NULL, 0, &fill, test_context));
    assert_ok(cuGraphAddMemcpyNode(&copied, graph, &filled, 1, &copy, test_context));
    executable = instantiate(graph);
    fill.dst = word + 4;
    fill.value = 9;
    assert_ok(cuGraphExecMemsetNodeSetParams(executable, filled, &fill, test_context));
    copy.srcDevice = word + 4;
    assert_ok(cuGraphExecMemcpyNodeSetParams(executable, copied, &copy, test_context));
    run_graph(executable);
    assert_int_equal(read_word(other), 9);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST; /* another kind of memory */
    copy.dstHost = &value;
    assert_int_equal(cuGraphExecMemcpyNodeSetParams(executable, copied, &copy, test_context),
                     CUDA_ERROR_INVALID_VALUE);
    copy = copy_node(other, word);
    copy.Height = 2;
    copy.srcPitch = copy.dstPitch = 64;
    assert_int_equal(cuGraphExecMemcpyNodeSetParams(executable, copied, &copy, test_context),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphExecMemsetNodeSetParams(executable, copied, &fill, test_context),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroyNode(filled));
    assert_int_equal(cuGraphExecMemsetNodeSetParams(executable, filled, &fill, test_context),
                     CUDA_ERROR_INVALID_VALUE);
    copy = copy_node(other, word); /* the other node is still the one that it was */
    assert_ok(cuGraphExecMemcpyNodeSetParams(executable, copied, &copy, test_context));
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
}

static void test_child_graphs_in_executable_graphs(void **state) {
    CUgraph graph = create_graph(), child = create_graph(), next = create_graph();
    CUgraph different = create_graph();
    CUgraphExec executable;
    CUgraphNode nested;

    (void)state;
    add_fill(child, NULL, word, 1);
    add_fill(next, NULL, word, 2);
    add_empty(different);
    assert_ok(cuGraphAddChildGraphNode(&nested, graph, NULL, 0, child));
    executable = instantiate(graph);
    assert_ok(cuGraphExecChildGraphNodeSetParams(executable, nested, next));
    run_graph(executable);
    assert_int_equal(read_word(word), 2);
    assert_int_equal(cuGraphExecChildGraphNodeSetParams(executable, nested, different),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(child));
    assert_ok(cuGraphDestroy(next));
    assert_ok(cuGraphDestroy(different));
}

static void test_nodes_are_switched_off(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode first = add_fill(graph, NULL, word, 1), second = add_fill(graph, first, word, 2);
    CUgraphNode empty = add_empty(graph);
    CUgraphExec executable = instantiate(graph);
    unsigned int enabled = 0;

    (void)state;
    assert_ok(cuGraphNodeGetEnabled(executable, second, &enabled));
    assert_int_equal(enabled, 1);
    assert_ok(cuGraphNodeSetEnabled(executable, second, 0));
    assert_ok(cuGraphNodeGetEnabled(executable, second, &enabled));
    assert_int_equal(enabled, 0);
    run_graph(executable);
    assert_int_equal(read_word(word), 1);
    assert_ok(cuGraphNodeSetEnabled(executable, second, 1));
    run_graph(executable);
    assert_int_equal(read_word(word), 2);
    assert_int_equal(cuGraphNodeSetEnabled(executable, empty, 0), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
}

static void test_flags_are_kept(void **state) {
    const cuuint64_t priority = CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {.flags =
                                                    priority | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
    CUgraph graph = create_graph();
    CUgraphExec executable;
    cuuint64_t flags = 0;

    (void)state;
    assert_ok(cuGraphInstantiateWithParams(&executable, graph, &parameters));
    assert_ok(cuGraphExecGetFlags(executable, &flags));
    assert_int_equal(flags, priority);
    assert_ok(cuGraphExecDestroy(executable));
    assert_int_equal(cuGraphExecGetFlags(executable, &flags), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphInstantiateWithFlags(&executable, graph, 1 << 20),
                     CUDA_ERROR_INVALID_VALUE);
    parameters.flags = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
    parameters.hErrNode_out = add_empty(graph);
    assert_int_equal(cuGraphInstantiateWithParams(&executable, graph, &parameters),
                     CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(parameters.result_out, CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED);
    assert_ok(cuGraphDestroy(graph));
}

/* What is changed while a launch is under way is not that launch's. */
static void test_a_launch_does_what_was_so_when_it_began(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode node = add_fill(graph, NULL, word, 1);
    CUDA_KERNEL_NODE_PARAMS_v2 parameters;
    CUgraphExec executable = instantiate(graph);
    struct gate gate;
    CUstream stream;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    gate = gate_close(stream);
    assert_ok(cuGraphLaunch(executable, stream));
    parameters = kernel_node("fill_u32", (void *[]){&word, &(uint64_t){1}, &(uint32_t){2}});
    assert_ok(cuGraphExecKernelNodeSetParams_v2(executable, node, &parameters));
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    gate_open(gate);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(read_word(word), 1);
    gate_remove(gate);
    assert_ok(cuStreamDestroy_v2(stream));
}

/* --- threads --- */

enum { ROUNDS = 200 };

static void *launch_again_and_again(void *executable) {
    assert_ok(cuCtxSetCurrent(test_context));
    for (int i = 0; i < ROUNDS; i++)
        assert_ok(cuGraphLaunch(executable, CU_STREAM_PER_THREAD));
    assert_ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

static void test_one_thread_updates_what_another_launches(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode node = add_fill(graph, NULL, word, 1);
    CUgraphExec executable = instantiate(graph);
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, launch_again_and_again, executable), 0);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        CUgraph next = create_graph();

        add_fill(next, NULL, word, i);
        assert_int_equal(update(executable, next).result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
        assert_ok(cuGraphNodeSetEnabled(executable, node, i % 2));
        assert_ok(cuGraphDestroy(next));
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(cuGraphNodeSetEnabled(executable, node, 1));
    run_graph(executable);
    assert_int_equal(read_word(word), ROUNDS);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
}

static int set_up(void **state) {
    int result = set_up_context(state);

    word = allocate_word();
    other = allocate_word();
    return result;
}

static int tear_down(void **state) {
    assert_ok(cuMemFree_v2(word));
    assert_ok(cuMemFree_v2(other));
    return tear_down_context(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_update_takes_over_what_nodes_do),
        cmocka_unit_test(test_another_shape_is_refused),
        cmocka_unit_test(test_what_a_node_may_not_become),
        cmocka_unit_test(test_copies_and_fills_in_executable_graphs),
        cmocka_unit_test(test_child_graphs_in_executable_graphs),
        cmocka_unit_test(test_nodes_are_switched_off),
        cmocka_unit_test(test_flags_are_kept),
        cmocka_unit_test(test_a_launch_does_what_was_so_when_it_began),
        cmocka_unit_test(test_one_thread_updates_what_another_launches),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
