/* Captures and graphs that are put together by hand: one goes on where the other was. */
#include "test_graph.h"

static CUstream stream;
static CUdeviceptr word;

static CUgraph end_capture(void) {
    CUgraph graph;

    assert_ok(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void begin_capture(void) {
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static size_t count_nodes(CUgraph graph) {
    size_t count;

    assert_ok(cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static CUgraphNodeType type_of(CUgraphNode node) {
    CUgraphNodeType type;

    assert_ok(cuGraphNodeGetType(node, &type));
    return type;
}

/* What the next work in the stream will come behind. */
static CUgraphNode frontier(CUgraph *graph) {
    CUstreamCaptureStatus status;
    const CUgraphNode *nodes;
    cuuint64_t id;
    size_t count;

    assert_ok(cuStreamGetCaptureInfo_v2(stream, &status, &id, graph, &nodes, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_equal(count, 1);
    return nodes[0];
}

static void test_a_capture_goes_on_in_a_graph(void **state) {
    CUgraph graph = create_graph(), elsewhere = create_graph();
    CUgraphNode first = add_fill(graph, NULL, word, 1), nodes[2], stranger = add_empty(elsewhere);
    CUgraphExec executable;
    size_t count = 2;

    (void)state;
    assert_int_equal(cuStreamBeginCaptureToGraph(stream, graph, &stranger, NULL, 1,
                                                 CU_STREAM_CAPTURE_MODE_GLOBAL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL),
        CUDA_ERROR_INVALID_VALUE);
    assert_ok(
        cuStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(launch_fill(stream, word, 1, 2));
    assert_int_equal(cuGraphInstantiateWithFlags(&executable, graph, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
    assert_ptr_equal(end_capture(), graph);
    assert_ok(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 2);
    assert_ok(cuGraphNodeGetDependencies(nodes[1], &stranger, &(size_t){1}));
    assert_ptr_equal(stranger, first);
    run_once(graph);
    assert_int_equal(read_word(word), 2);
    assert_ok(cuGraphDestroy(elsewhere));
}

static void test_an_invalidated_capture_leaves_the_graph(void **state) {
    CUgraph graph = create_graph(), ended;

    (void)state;
    assert_ok(
        cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(launch_fill(stream, word, 1, 2));
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &ended), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(ended);
    assert_int_equal(count_nodes(graph), 1);
    assert_ok(cuGraphDestroy(graph));
}

static void test_dependencies_are_added_and_set(void **state) {
    CUgraph graph;
    CUgraphNode first, by_hand, last, nodes[2];
    size_t count = 2;

    (void)state;
    assert_int_equal(cuStreamUpdateCaptureDependencies(stream, NULL, 0, 0),
                     CUDA_ERROR_ILLEGAL_STATE);
    begin_capture();
    assert_ok(launch_fill(stream, word, 1, 1));
    first = frontier(&graph);
    by_hand = add_fill(graph, first, word, 2); /* into the graph that is captured */
    assert_ok(cuStreamUpdateCaptureDependencies_v2(stream, &by_hand, NULL, 1,
                                                   CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    assert_ptr_equal(frontier(&graph), by_hand);
    assert_ok(
        cuStreamUpdateCaptureDependencies(stream, &first, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
    assert_int_equal(cuStreamUpdateCaptureDependencies(stream, &first, 1, 7),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamUpdateCaptureDependencies(stream, &(CUgraphNode){NULL}, 1, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(launch_fill(stream, word, 1, 3));
    last = frontier(&graph);
    assert_ok(cuGraphNodeGetDependencies(last, nodes, &count));
    assert_int_equal(count, 2);
    /* what the stream forgets need not be joined */
    assert_ok(
        cuStreamUpdateCaptureDependencies(stream, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    assert_ptr_equal(end_capture(), graph);
    run_once(graph);
    assert_int_equal(read_word(word), 3);
}

static void test_a_launch_becomes_a_child_graph(void **state) {
    CUgraph graph = create_graph(), outer, child;
    CUgraphNode node;
    CUgraphExec executable;

    (void)state;
    add_fill(graph, NULL, word, 4);
    executable = instantiate(graph);
    begin_capture();
    assert_ok(cuGraphLaunch(executable, stream));
    node = frontier(&outer);
    assert_int_equal(type_of(node), CU_GRAPH_NODE_TYPE_GRAPH);
    end_capture();
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphChildGraphNodeGetGraph(node, &child));
    assert_int_equal(count_nodes(child), 1);
    run_once(outer);
    assert_int_equal(read_word(word), 4);
}

static void test_a_launch_with_memory_nodes_cannot_be_captured(void **state) {
    CUdeviceptr pointer;
    CUgraphExec executable;
    CUgraph graph;

    (void)state;
    begin_capture();
    assert_ok(cuMemAllocAsync(&pointer, 100, stream));
    assert_ok(cuMemFreeAsync(pointer, stream));
    graph = end_capture();
    executable = instantiate(graph);
    begin_capture();
    assert_int_equal(cuGraphLaunch(executable, stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &(CUgraph){NULL}),
                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
}

static void test_external_events_become_nodes(void **state) {
    CUgraphExec executable;
    CUevent event, before;
    CUgraph graph;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    assert_int_equal(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamWaitEvent(stream, event, CU_EVENT_WAIT_EXTERNAL),
                     CUDA_ERROR_INVALID_VALUE);
    begin_capture();
    assert_ok(cuStreamWaitEvent(stream, before, CU_EVENT_WAIT_EXTERNAL));
    assert_int_equal(type_of(frontier(&graph)), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    assert_ok(launch_fill(stream, word, 1, 6));
    assert_ok(cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_EXTERNAL));
    assert_int_equal(type_of(frontier(&graph)), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    end_capture();
    executable = instantiate(graph);
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuEventSynchronize(event)); /* of the launch, not captured */
    assert_int_equal(read_word(word), 6);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuEventDestroy_v2(before));
}

/* A pool that hands memory on once an event in a graph has happened is right; without it, not. */
static uint64_t hazards_of(bool waits) {
    CUgraph graph = create_graph();
    uint64_t before = simcuda_hazards();
    CUgraphNode fill, record;
    CUgraphExec executable;
    CUdeviceptr pointer;
    CUevent event;
    CUstream second;

    assert_ok(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuMemAlloc_v2(&pointer, 4096));
    simcuda_owner_begin(pointer, 4096, 0x1000);
    fill = add_fill(graph, NULL, pointer, 1);
    assert_ok(cuGraphAddEventRecordNode(&record, graph, &fill, 1, event));
    executable = instantiate(graph);
    assert_ok(cuGraphLaunch(executable, stream));
    simcuda_owner_end(pointer, 0x1001);
    if (waits)
        assert_ok(cuStreamWaitEvent(second, event, 0));
    simcuda_owner_begin(pointer, 4096, 0x2000);
    assert_ok(launch_fill(second, pointer, 1, 2));
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(second));
    return simcuda_hazards() - before;
}

static void test_event_nodes_order_the_reuse_of_memory(void **state) {
    (void)state;
    assert_int_equal(hazards_of(true), 0);
    assert_int_equal(hazards_of(false), 1);
}

static int set_up(void **state) {
    int result = set_up_context(state);

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    word = allocate_word();
    return result;
}

static int tear_down(void **state) {
    assert_ok(cuMemFree_v2(word));
    assert_ok(cuStreamDestroy_v2(stream));
    return tear_down_context(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_capture_goes_on_in_a_graph),
        cmocka_unit_test(test_an_invalidated_capture_leaves_the_graph),
        cmocka_unit_test(test_dependencies_are_added_and_set),
        cmocka_unit_test(test_a_launch_becomes_a_child_graph),
        cmocka_unit_test(test_a_launch_with_memory_nodes_cannot_be_captured),
        cmocka_unit_test(test_external_events_become_nodes),
        cmocka_unit_test(test_event_nodes_order_the_reuse_of_memory),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
