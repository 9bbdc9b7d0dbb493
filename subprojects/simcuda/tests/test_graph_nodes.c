/* Graphs put together by hand: what nodes of each type do, and what they answer. */
#include "test_graph.h"

static CUdeviceptr word, other;

static void test_memset_and_copy_nodes(void **state) {
    CUDA_MEMSET_NODE_PARAMS_v1 fill = memset_node(word, 7), fill_told;
    CUDA_MEMCPY3D copy = copy_node(other, word), copy_told;
    CUgraphNode nodes[2];
    CUgraphNodeType type;
    CUgraph graph = create_graph();

    (void)state;
    assert_ok(cuGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &fill, test_context));
    assert_ok(cuGraphAddMemcpyNode(&nodes[1], graph, nodes, 1, &copy, test_context));
    assert_ok(cuGraphNodeGetType(nodes[0], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMSET);
    assert_ok(cuGraphNodeGetType(nodes[1], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    assert_ok(cuGraphMemsetNodeGetParams(nodes[0], &fill_told));
    assert_memory_equal(&fill_told, &fill, sizeof fill);
    assert_ok(cuGraphMemcpyNodeGetParams(nodes[1], &copy_told));
    assert_memory_equal(&copy_told, &copy, sizeof copy);
    assert_int_equal(cuGraphMemsetNodeGetParams(nodes[1], &fill_told), CUDA_ERROR_INVALID_VALUE);
    fill.value = 8;
    assert_ok(cuCtxSetCurrent(NULL)); /* nodes know where they run */
    assert_ok(cuGraphMemsetNodeSetParams(nodes[0], &fill));
    assert_ok(cuGraphMemcpyNodeSetParams(nodes[1], &copy));
    assert_ok(cuCtxSetCurrent(test_context));
    run_once(graph);
    assert_int_equal(read_word(other), 8);
}

static void test_operations_that_cannot_be(void **state) {
    CUDA_MEMSET_NODE_PARAMS_v1 fill = memset_node(word, 7);
    CUDA_MEMCPY3D copy = copy_node(other, word);
    CUDA_HOST_NODE_PARAMS_v1 host = {NULL, NULL};
    CUgraph graph = create_graph();
    CUgraphNode node, twice[2];

    (void)state;
    fill.elementSize = 3;
    assert_int_equal(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, test_context),
                     CUDA_ERROR_INVALID_VALUE);
    fill = memset_node(word, 7);
    fill.width = 0;
    assert_int_equal(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, test_context),
                     CUDA_ERROR_INVALID_VALUE);
    copy.WidthInBytes = 0;
    assert_int_equal(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, test_context),
                     CUDA_ERROR_INVALID_VALUE);
    copy = copy_node(other, word);
    assert_int_equal(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, (CUcontext)&node),
                     CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuGraphAddHostNode(&node, graph, NULL, 0, &host), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddEventRecordNode(&node, graph, NULL, 0, (CUevent)&node),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddMemFreeNode(&node, graph, NULL, 0, word), CUDA_ERROR_INVALID_VALUE);
    twice[0] = twice[1] = add_empty(graph);
    assert_int_equal(cuGraphAddEmptyNode(&node, graph, twice, 2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddEmptyNode(&node, graph, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(cuGraphNodeGetType(twice[0], &(CUgraphNodeType){0}), CUDA_ERROR_INVALID_VALUE);
}

static void test_a_dependency_is_of_the_same_graph(void **state) {
    CUgraph graph = create_graph(), elsewhere = create_graph();
    CUgraphNode node, stranger = add_empty(elsewhere);

    (void)state;
    assert_int_equal(cuGraphAddEmptyNode(&node, graph, &stranger, 1), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(elsewhere));
}

static void add_ten(void *data) {
    *(uint32_t *)data += 10;
}

static void double_it(void *data) {
    *(uint32_t *)data *= 2;
}

static void test_host_nodes(void **state) {
    uint32_t value = 1;
    CUDA_HOST_NODE_PARAMS_v1 node = {add_ten, &value}, told;
    CUgraph graph = create_graph();
    CUgraphNode first, second;
    CUgraphExec executable;

    (void)state;
    assert_ok(cuGraphAddHostNode(&first, graph, NULL, 0, &node));
    node.fn = double_it;
    assert_ok(cuGraphAddHostNode(&second, graph, &first, 1, &node));
    assert_ok(cuGraphHostNodeGetParams(second, &told));
    assert_ptr_equal(told.fn, double_it);
    assert_ptr_equal(told.userData, &value);
    executable = instantiate(graph);
    run_graph(executable);
    assert_int_equal(value, 22);
    assert_ok(cuGraphExecHostNodeSetParams(executable, first, &node));
    run_graph(executable);
    assert_int_equal(value, 88);
    assert_ok(cuGraphHostNodeSetParams(first, &node)); /* not what was made before */
    assert_ok(cuGraphExecDestroy(executable));
    run_once(graph);
    assert_int_equal(value, 352);
}

static void test_a_child_graph_is_a_copy(void **state) {
    CUgraph graph = create_graph(), child = create_graph(), copy;
    CUgraphNode node, in_copy;
    size_t count = 1;

    (void)state;
    add_fill(child, NULL, word, 3);
    assert_ok(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    add_fill(graph, node, other, 4);
    assert_ok(cuGraphDestroy(child)); /* the node has its own */
    assert_ok(cuGraphChildGraphNodeGetGraph(node, &copy));
    assert_ptr_not_equal(copy, child);
    assert_ok(cuGraphGetNodes(copy, &in_copy, &count));
    assert_int_equal(cuGraphDestroy(copy), CUDA_ERROR_INVALID_VALUE);
    add_fill(copy, in_copy, word, 5); /* changes to it are the node's */
    run_once(graph);
    assert_int_equal(read_word(word), 5);
    assert_int_equal(read_word(other), 4);
    assert_int_equal(cuGraphGetNodes(copy, NULL, &count), CUDA_ERROR_INVALID_VALUE);
}

static void test_kernel_parameters_are_told(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode node = add_fill(graph, NULL, word, 9);
    CUDA_KERNEL_NODE_PARAMS_v1 first;
    CUDA_KERNEL_NODE_PARAMS_v2 told;
    CUlibrary library;
    CUkernel kernel;

    (void)state;
    assert_ok(cuGraphKernelNodeGetParams_v2(node, &told));
    assert_ptr_equal(told.func, test_kernel("fill_u32"));
    assert_int_equal(told.blockDimX, 32);
    assert_int_equal(*(CUdeviceptr *)told.kernelParams[0], word);
    assert_int_equal(*(uint32_t *)told.kernelParams[2], 9);
    *(uint32_t *)told.kernelParams[2] = 9;
    assert_ok(cuGraphKernelNodeSetParams_v2(node, &told)); /* what was answered can be given back */
    assert_ok(cuGraphKernelNodeGetParams(node, &first));
    assert_ptr_equal(first.func, test_kernel("fill_u32"));
    assert_ok(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    assert_ok(cuLibraryGetKernel(&kernel, library, "fill_u32"));
    assert_ok(cuGraphKernelNodeGetParams_v2(node, &told)); /* what was answered before is gone */
    told.func = NULL;
    told.kern = kernel;
    assert_ok(cuGraphKernelNodeSetParams_v2(node, &told));
    assert_ok(cuGraphKernelNodeGetParams_v2(node, &told));
    assert_null(told.func);
    assert_ptr_equal(told.kern, kernel);
    assert_ok(cuGraphKernelNodeGetParams(node, &first));
    assert_non_null(first.func);
    run_once(graph);
    assert_int_equal(read_word(word), 9);
    assert_ok(cuLibraryUnload(library));
}

static void test_kernel_attributes(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode node = add_fill(graph, NULL, word, 1), copy = add_fill(graph, NULL, word, 1);
    CUlaunchAttributeValue value = {.priority = -3};

    (void)state;
    assert_ok(cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    assert_ok(cuGraphKernelNodeGetAttribute(copy, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    assert_int_equal(value.priority, 0);
    assert_ok(cuGraphKernelNodeCopyAttributes(copy, node));
    assert_ok(cuGraphKernelNodeGetAttribute(copy, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    assert_int_equal(value.priority, -3);
    assert_int_equal(cuGraphKernelNodeGetAttribute(
                         copy, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, &value),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuGraphKernelNodeSetAttribute(add_empty(graph), CU_LAUNCH_ATTRIBUTE_PRIORITY, &value),
        CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
}

/* --- events --- */

static void test_an_event_node_records_in_the_midst_of_a_launch(void **state) {
    CUgraph graph = create_graph();
    CUgraphNode fill = add_fill(graph, NULL, word, 6), record;
    CUdeviceptr flag;
    CUDA_KERNEL_NODE_PARAMS_v2 wait;
    CUgraphExec executable;
    CUstream stream;
    CUevent event, told;
    void *memory;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuMemHostAlloc(&memory, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    *(uint32_t *)memory = 0;
    flag = (CUdeviceptr)(uintptr_t)memory;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuGraphAddEventRecordNode(&record, graph, &fill, 1, event));
    assert_ok(cuGraphEventRecordNodeGetEvent(record, &told));
    assert_ptr_equal(told, event);
    wait = kernel_node("wait_flag", (void *[]){&flag});
    assert_ok(cuGraphAddKernelNode_v2(&(CUgraphNode){NULL}, graph, &record, 1, &wait));
    executable = instantiate(graph);
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuEventSynchronize(event)); /* although the launch is under way */
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    __atomic_store_n((uint32_t *)memory, 1, __ATOMIC_RELEASE);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(read_word(word), 6);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuMemFreeHost(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_an_event_node_waits_for_other_streams(void **state) {
    CUgraph graph = create_graph(), child = create_graph();
    CUgraphNode wait, nested;
    CUgraphExec executable;
    CUstream stream, launched;
    CUevent event, later;
    struct gate gate;

    (void)state;
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamCreate(&launched, CU_STREAM_NON_BLOCKING));
    assert_ok(cuEventCreate(&event, 0));
    assert_ok(cuEventCreate(&later, 0));
    assert_ok(cuGraphAddEventWaitNode(&wait, child, NULL, 0, event));
    assert_ok(cuGraphAddChildGraphNode(&nested, graph, NULL, 0, child));
    add_fill(graph, nested, word, 8);
    executable = instantiate(graph);
    gate = gate_close(stream);
    assert_ok(launch_fill(stream, word, 1, 7));
    assert_ok(cuEventRecord(event, stream));
    assert_ok(cuGraphLaunch(executable, launched));
    assert_int_equal(cuStreamQuery(launched), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(launched));
    assert_int_equal(read_word(word), 8);
    assert_ok(cuGraphEventWaitNodeSetEvent(wait, later));
    assert_ok(cuEventDestroy_v2(event));
    assert_int_equal(cuGraphLaunch(executable, launched), CUDA_ERROR_INVALID_HANDLE);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(child));
    assert_ok(cuEventDestroy_v2(later));
    gate_remove(gate);
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuStreamDestroy_v2(launched));
    assert_int_equal(simcuda_hazards(), 0);
}

/* --- memory --- */

static size_t available(void) {
    size_t free_bytes, total;

    assert_ok(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static CUDA_MEM_ALLOC_NODE_PARAMS allocation(size_t size) {
    return (CUDA_MEM_ALLOC_NODE_PARAMS){
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = size};
}

static void test_memory_nodes(void **state) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = allocation(4 * MiB), told;
    CUgraph graph = create_graph(), clone;
    CUgraphNode node, used, freed;
    CUgraphExec executable, second;
    size_t before = available();
    CUdeviceptr address;
    CUDA_MEMCPY3D copy;

    (void)state;
    assert_ok(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters));
    assert_int_not_equal(parameters.dptr, 0);
    used = add_fill(graph, node, parameters.dptr + 2 * MiB, 11);
    copy = copy_node(word, parameters.dptr + 2 * MiB);
    assert_ok(cuGraphAddMemcpyNode(&used, graph, &used, 1, &copy, test_context));
    assert_ok(cuGraphAddMemFreeNode(&freed, graph, &used, 1, parameters.dptr));
    assert_int_equal(cuGraphAddMemFreeNode(&freed, graph, &used, 1, parameters.dptr),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphMemAllocNodeGetParams(node, &told));
    assert_int_equal(told.bytesize, 4 * MiB);
    assert_int_equal(told.dptr, parameters.dptr);
    assert_ok(cuGraphMemFreeNodeGetParams(freed, &address));
    assert_int_equal(address, parameters.dptr);
    assert_int_equal(cuGraphClone(&clone, graph), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphDestroyNode(used), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphRemoveDependencies(graph, &used, &freed, 1), CUDA_ERROR_INVALID_VALUE);
    executable = instantiate(graph);
    assert_int_equal(cuGraphInstantiateWithFlags(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    run_graph(executable);
    run_graph(executable);
    assert_int_equal(read_word(word), 11);
    assert_int_equal(available(), before - 4 * MiB);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(available(), before);
    assert_int_equal(simcuda_hazards(), 0);
}

static void test_memory_that_cannot_be(void **state) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = allocation(0);
    CUgraph graph = create_graph(), child, outer = create_graph();
    CUgraphNode node;

    (void)state;
    assert_int_equal(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters),
                     CUDA_ERROR_INVALID_VALUE);
    parameters = allocation(4096);
    parameters.poolProps.location.id = 99;
    assert_int_equal(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters),
                     CUDA_ERROR_INVALID_VALUE);
    parameters = allocation(4096);
    parameters.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    assert_int_equal(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters),
                     CUDA_ERROR_INVALID_VALUE);
    parameters = allocation(4096);
    assert_ok(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &parameters));
    assert_int_equal(cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    graph = create_graph();
    assert_ok(cuGraphAddChildGraphNode(&node, outer, NULL, 0, graph));
    assert_ok(cuGraphChildGraphNodeGetGraph(node, &child));
    assert_int_equal(cuGraphAddMemAllocNode(&node, child, NULL, 0, &parameters),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(outer));
}

/* --- nodes of any type --- */

#if CUDA_VERSION >= 12030
static void test_nodes_of_any_type(void **state) {
    uint64_t count = 1;
    uint32_t value = 12;
    CUgraphNodeParams kernel = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUgraphNodeParams copy = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    CUgraphNodeParams fill = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    CUgraph graph = create_graph();
    CUgraphNode nodes[3];
    CUgraphExec executable;

    (void)state;
    kernel.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){.func = test_kernel("fill_u32"),
                                                 .gridDimX = 1,
                                                 .gridDimY = 1,
                                                 .gridDimZ = 1,
                                                 .blockDimX = 1,
                                                 .blockDimY = 1,
                                                 .blockDimZ = 1,
                                                 .kernelParams = (void *[]){&word, &count, &value}};
    copy.memcpy.copyParams = copy_node(other, word);
    fill.memset = (CUDA_MEMSET_NODE_PARAMS_v2){
        .dst = word, .value = 1, .elementSize = 4, .width = 1, .height = 1};
    assert_ok(cuGraphAddNode(&nodes[0], graph, NULL, 0, &kernel));
    assert_ok(cuGraphAddNode(&nodes[1], graph, nodes, 1, &copy));
    assert_ok(cuGraphAddNode_v2(&nodes[2], graph, &nodes[1], NULL, 1, &fill));
    executable = instantiate(graph);
    run_graph(executable);
    assert_int_equal(read_word(other), 12);
    assert_int_equal(read_word(word), 1);
    value = 13;
    assert_ok(cuGraphExecNodeSetParams(executable, nodes[0], &kernel));
    fill.memset.value = 2;
    assert_ok(cuGraphNodeSetParams(nodes[2], &fill));
    run_graph(executable);
    assert_int_equal(read_word(other), 13);
    assert_int_equal(read_word(word), 1);
    assert_int_equal(cuGraphNodeSetParams(nodes[2], &copy), CUDA_ERROR_INVALID_VALUE);
    copy.reserved2 = 1;
    assert_int_equal(cuGraphNodeSetParams(nodes[1], &copy), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExecDestroy(executable));
    run_once(graph);
    assert_int_equal(read_word(other), 12); /* as it was when it was added */
    assert_int_equal(read_word(word), 2);
}

static void test_a_node_gets_another_child_graph(void **state) {
    CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraphNodeParams allocating = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraph graph = create_graph(), child = create_graph(), told;
    CUgraphNode node, empty;

    (void)state;
    add_fill(child, NULL, word, 31);
    assert_ok(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    add_fill(child, NULL, other, 32);
    parameters.graph.graph = child;
    assert_ok(cuGraphNodeSetParams(node, &parameters));
    assert_ok(cuGraphChildGraphNodeGetGraph(node, &told));
    parameters.graph.graph = told; /* a copy of what it has */
    assert_ok(cuGraphNodeSetParams(node, &parameters));
    empty = add_empty(graph);
    assert_int_equal(cuGraphNodeSetParams(empty, &parameters), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphNodeSetParams(empty, &allocating), CUDA_ERROR_INVALID_VALUE);
    parameters.graph.graph = NULL;
    assert_int_equal(cuGraphNodeSetParams(node, &parameters), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(child));
    run_once(graph);
    assert_int_equal(read_word(word), 31);
    assert_int_equal(read_word(other), 32);
}
#endif

#if CUDA_VERSION >= 12090
static void test_a_graph_is_moved_into_another(void **state) {
    CUgraphNodeParams child = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraphNodeParams memory = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraph graph = create_graph(), moved = create_graph(), told;
    CUgraphNode node, allocating;
    CUgraphExec executable;
    CUdeviceptr address;

    (void)state;
    memory.alloc.poolProps = allocation(4096).poolProps;
    memory.alloc.bytesize = 4096;
    assert_ok(cuGraphAddNode(&allocating, moved, NULL, 0, &memory));
    address = memory.alloc.dptr;
    assert_int_not_equal(address, 0);
    assert_ok(cuGraphAddMemFreeNode(
        &node, moved, &(CUgraphNode){add_fill(moved, allocating, address, 5)}, 1, address));
    child.graph.graph = moved;
    child.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    assert_ok(cuGraphAddNode(&node, graph, NULL, 0, &child));
    assert_int_equal(cuGraphDestroy(moved), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphInstantiateWithFlags(&executable, moved, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddNode(&node, graph, NULL, 0, &child), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphChildGraphNodeGetGraph(node, &told));
    assert_ptr_equal(told, moved);
    run_once(graph);
    assert_int_equal(cuMemGetAddressRange_v2(NULL, NULL, address), CUDA_ERROR_NOT_FOUND);
}
#endif

/* --- captured nodes --- */

static void test_captured_nodes_are_told(void **state) {
    CUDA_KERNEL_NODE_PARAMS_v2 kernel;
    CUDA_MEMCPY3D copy;
    CUlaunchAttributeValue value;
    CUgraphNode nodes[3];
    CUgraphNodeType type;
    size_t count = 3;
    uint32_t source = 21;
    CUstream stream;
    CUgraph graph;

    (void)state;
    assert_ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -1));
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(launch_fill(stream, word, 1, 20));
    assert_ok(cuMemcpyHtoDAsync_v2(word, &source, sizeof source, stream));
    assert_ok(cuMemsetD32Async(other, 22, 1, stream));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 3);
    assert_ok(cuGraphNodeGetType(nodes[2], &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEMSET);
    assert_ok(cuGraphKernelNodeGetParams_v2(nodes[0], &kernel));
    assert_int_equal(*(uint32_t *)kernel.kernelParams[2], 20);
    assert_ok(cuGraphKernelNodeGetAttribute(nodes[0], CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    assert_int_equal(value.priority, -1);
    assert_ok(cuGraphMemcpyNodeGetParams(nodes[1], &copy));
    assert_int_equal(copy.srcMemoryType, CU_MEMORYTYPE_HOST);
    assert_ptr_equal(copy.srcHost, &source);
    assert_int_equal(copy.dstDevice, word);
    assert_ok(
        cuGraphMemcpyNodeSetParams(nodes[1], &copy)); /* what was answered can be given back */
    run_once(graph);
    assert_int_equal(read_word(word), 21);
    assert_int_equal(read_word(other), 22);
    assert_ok(cuStreamDestroy_v2(stream));
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
        cmocka_unit_test(test_memset_and_copy_nodes),
        cmocka_unit_test(test_operations_that_cannot_be),
        cmocka_unit_test(test_a_dependency_is_of_the_same_graph),
        cmocka_unit_test(test_host_nodes),
        cmocka_unit_test(test_a_child_graph_is_a_copy),
        cmocka_unit_test(test_kernel_parameters_are_told),
        cmocka_unit_test(test_kernel_attributes),
        cmocka_unit_test(test_an_event_node_records_in_the_midst_of_a_launch),
        cmocka_unit_test(test_an_event_node_waits_for_other_streams),
        cmocka_unit_test(test_memory_nodes),
        cmocka_unit_test(test_memory_that_cannot_be),
#if CUDA_VERSION >= 12030
        cmocka_unit_test(test_nodes_of_any_type),
        cmocka_unit_test(test_a_node_gets_another_child_graph),
#endif
#if CUDA_VERSION >= 12090
        cmocka_unit_test(test_a_graph_is_moved_into_another),
#endif
        cmocka_unit_test(test_captured_nodes_are_told),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
