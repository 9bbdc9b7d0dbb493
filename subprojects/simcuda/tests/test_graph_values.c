/* Nodes of graphs that wait for words of memory and for external semaphores, and that write them:
 * added, told, changed and captured. */
#include "test_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUdeviceptr word, other;
static uint64_t *host; /* a word that the host and the device reach */

static CUstreamBatchMemOpParams wait_step(CUdeviceptr address, uint32_t value) {
    return (CUstreamBatchMemOpParams){.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                                                    .address = address,
                                                    .value = value,
                                                    .flags = CU_STREAM_WAIT_VALUE_EQ}};
}

static CUstreamBatchMemOpParams write_step(CUdeviceptr address, uint32_t value) {
    return (CUstreamBatchMemOpParams){.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                     .address = address,
                                                     .value = value}};
}

static CUstreamBatchMemOpParams barrier_step(void) {
    return (CUstreamBatchMemOpParams){.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}};
}

static CUDA_BATCH_MEM_OP_NODE_PARAMS batch_of(CUstreamBatchMemOpParams *steps, unsigned int count) {
    return (CUDA_BATCH_MEM_OP_NODE_PARAMS){test_context, count, steps, 0};
}

static CUgraphNode add_batch(CUgraph graph, CUgraphNode after, CUstreamBatchMemOpParams *steps,
                             unsigned int count) {
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(steps, count);
    CUgraphNode node;

    assert_ok(cuGraphAddBatchMemOpNode(&node, graph, &after, after != NULL ? 1 : 0, &batch));
    return node;
}

static void set_host(uint64_t value) {
    __atomic_store_n(host, value, __ATOMIC_RELEASE);
}

static CUdeviceptr host_address(void) {
    return (CUdeviceptr)(uintptr_t)host;
}

static void assert_type(CUgraphNode node, CUgraphNodeType expected) {
    CUgraphNodeType type;

    assert_ok(cuGraphNodeGetType(node, &type));
    assert_int_equal(type, expected);
}

/* Launches a graph that waits, makes sure of that, and lets it go. */
static void launch_waiting(CUgraphExec executable, uint64_t end) {
    CUstream stream;

    assert_ok(cuCtxSynchronize()); /* fills of the legacy stream */
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuGraphLaunch(executable, stream));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    set_host(end);
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuStreamDestroy_v2(stream));
    set_host(0);
}

/* --- batches --- */

static void test_a_batch_comes_after_what_it_depends_on(void **state) {
    CUgraph graph = create_graph();
    CUstreamBatchMemOpParams steps[] = {wait_step(word, 5), wait_step(host_address(), 1),
                                        barrier_step(), write_step(word, 6)};
    CUstreamBatchMemOpParams expected[4];
    CUDA_BATCH_MEM_OP_NODE_PARAMS told;
    CUgraphExec executable;
    CUgraphNode node;

    (void)state;
    memcpy(expected, steps, sizeof steps);
    node = add_batch(graph, add_fill(graph, NULL, word, 5), steps, 4);
    memset(steps, 0, sizeof steps); /* they are the program's again */
    add_fill(graph, node, other, 9);
    assert_type(node, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    assert_ok(cuGraphBatchMemOpNodeGetParams(node, &told));
    assert_ptr_equal(told.ctx, test_context);
    assert_int_equal(told.count, 4);
    assert_int_equal(told.flags, 0);
    assert_memory_equal(told.paramArray, expected, sizeof expected);
    executable = instantiate(graph);
    for (int i = 0; i < 2; i++) {
        assert_ok(cuMemsetD32_v2(other, 0, 1));
        launch_waiting(executable, 1);
        assert_int_equal(read_word(word), 6);
        assert_int_equal(read_word(other), 9);
    }
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(cuGraphBatchMemOpNodeGetParams(node, &told), CUDA_ERROR_INVALID_VALUE);
}

static void test_a_batch_that_cannot_be(void **state) {
    CUstreamBatchMemOpParams step = write_step(word, 1);
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(&step, 1), told;
    CUgraph graph = create_graph();
    CUgraphNode node, empty = add_empty(graph);

    (void)state;
    batch.count = 0;
    assert_int_equal(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    batch = batch_of(&step, 256);
    assert_int_equal(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    batch = batch_of(NULL, 1);
    assert_int_equal(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    batch = batch_of(&step, 1);
    batch.flags = 1;
    assert_int_equal(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    batch.flags = 0;
    batch.ctx = (CUcontext)&node;
    assert_int_equal(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch),
                     CUDA_ERROR_INVALID_CONTEXT);
    batch.ctx = test_context;
    step.writeValue.address = word + 2;
    assert_int_equal(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    step = write_step(word, 1);
    assert_int_equal(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphBatchMemOpNodeGetParams(empty, &told), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphBatchMemOpNodeSetParams(empty, &batch), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphBatchMemOpNodeSetParams(add_batch(graph, NULL, &step, 1), NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
}

static void test_a_batch_without_a_context_has_the_current_one(void **state) {
    CUstreamBatchMemOpParams step = write_step(word, 1);
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.count = 1, .paramArray = &step}, told;
    CUgraph graph = create_graph();
    CUgraphNode node;

    (void)state;
    assert_ok(cuGraphAddBatchMemOpNode(&node, graph, NULL, 0, &batch));
    assert_ok(cuGraphBatchMemOpNodeGetParams(node, &told));
    assert_ptr_equal(told.ctx, test_context);
    assert_ok(cuGraphBatchMemOpNodeSetParams(node, &told)); /* what was answered is given back */
    assert_ok(cuGraphDestroy(graph));
}

static void test_a_batch_is_changed_in_its_graph_and_where_it_is_executed(void **state) {
    CUstreamBatchMemOpParams steps[] = {wait_step(host_address(), 1), write_step(word, 1)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(steps, 2);
    CUgraph graph = create_graph();
    CUgraphNode node = add_batch(graph, NULL, steps, 2);
    CUgraphExec executable = instantiate(graph);

    (void)state;
    steps[0] = wait_step(host_address(), 2);
    steps[1] = write_step(other, 12);
    assert_ok(cuGraphExecBatchMemOpNodeSetParams(executable, node, &batch));
    memset(steps, 0, sizeof steps);
    launch_waiting(executable, 2);
    assert_int_equal(read_word(other), 12);
    assert_ok(cuGraphBatchMemOpNodeGetParams(node, &batch)); /* that stays as it was */
    assert_int_equal(batch.paramArray[1].writeValue.address, word);
    steps[0] = write_step(other, 13); /* a graph's own node takes anything */
    batch = batch_of(steps, 1);
    assert_ok(cuGraphBatchMemOpNodeSetParams(node, &batch));
    assert_ok(cuGraphExecDestroy(executable));
    run_once(graph);
    assert_int_equal(read_word(other), 13);
}

static void test_what_a_batch_does_not_become_once_it_is_executable(void **state) {
    CUstreamBatchMemOpParams steps[] = {wait_step(host_address(), 1), write_step(word, 1),
                                        barrier_step()};
    const CUstreamBatchMemOpParams was[] = {steps[0], steps[1], steps[2]};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(steps, 3);
    CUgraph graph = create_graph();
    CUgraphNode node = add_batch(graph, NULL, steps, 3);
    CUgraphExec executable = instantiate(graph);
    CUcontext another;

    (void)state;
    batch.count = 2;
    assert_int_equal(cuGraphExecBatchMemOpNodeSetParams(executable, node, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    batch.count = 3;
    steps[0].waitValue.flags |= CU_STREAM_WAIT_VALUE_FLUSH;
    assert_int_equal(cuGraphExecBatchMemOpNodeSetParams(executable, node, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    steps[0] = write_step(word, 2);
    assert_int_equal(cuGraphExecBatchMemOpNodeSetParams(executable, node, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    steps[0] = was[0];
    steps[2].memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
    assert_int_equal(cuGraphExecBatchMemOpNodeSetParams(executable, node, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    steps[2] = was[2];
    assert_ok(cuCtxCreate_v2(&another, 0, 0));
    batch.ctx = another;
    assert_int_equal(cuGraphExecBatchMemOpNodeSetParams(executable, node, &batch),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuCtxDestroy_v2(another));
    assert_ok(cuCtxSetCurrent(test_context));
    batch.ctx = test_context;
    steps[0].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ; /* this may change */
    assert_ok(cuGraphExecBatchMemOpNodeSetParams(executable, node, &batch));
    launch_waiting(executable, 7);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
}

/* --- semaphores --- */

/* A timeline, and the word that it is. */
struct timeline {
    CUexternalSemaphore semaphore;
    uint64_t *value;
};

static struct timeline create_timeline(void) {
    int file = memfd_create("test", MFD_CLOEXEC);
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC from = {
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = file};
    struct timeline timeline;

    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, sizeof(uint64_t)), 0);
    timeline.value = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(timeline.value != MAP_FAILED);
    assert_ok(cuImportExternalSemaphore(&timeline.semaphore, &from));
    return timeline;
}

static void remove_timeline(struct timeline timeline) {
    assert_ok(cuDestroyExternalSemaphore(timeline.semaphore));
    munmap(timeline.value, sizeof(uint64_t));
}

static uint64_t reached(struct timeline timeline) {
    return __atomic_load_n(timeline.value, __ATOMIC_ACQUIRE);
}

/* A node that waits for `first` to have the value, and one behind it that gives it to `second`. */
static void add_semaphores(CUgraph graph, struct timeline first, struct timeline second,
                           uint64_t value, CUgraphNode nodes[2]) {
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = value};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = value};
    CUDA_EXT_SEM_WAIT_NODE_PARAMS waits = {&first.semaphore, &wait, 1};
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals = {&second.semaphore, &signal, 1};

    assert_ok(cuGraphAddExternalSemaphoresWaitNode(&nodes[0], graph, NULL, 0, &waits));
    assert_ok(cuGraphAddExternalSemaphoresSignalNode(&nodes[1], graph, nodes, 1, &signals));
}

static void run_to(CUgraphExec executable, struct timeline first, struct timeline second,
                   uint64_t value) {
    uint64_t before = reached(second);
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuGraphLaunch(executable, stream));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    assert_int_equal(reached(second), before);
    __atomic_store_n(first.value, value, __ATOMIC_RELEASE);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(reached(second), value);
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_semaphore_nodes_wait_and_signal(void **state) {
    struct timeline first = create_timeline(), second = create_timeline();
    CUgraph graph = create_graph();
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS waits;
    CUgraphExec executable;
    CUgraphNode nodes[2];

    (void)state;
    add_semaphores(graph, first, second, 3, nodes);
    assert_type(nodes[0], CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT);
    assert_type(nodes[1], CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL);
    assert_ok(cuGraphExternalSemaphoresWaitNodeGetParams(nodes[0], &waits));
    assert_int_equal(waits.numExtSems, 1);
    assert_ptr_equal(waits.extSemArray[0], first.semaphore);
    assert_int_equal(waits.paramsArray[0].params.fence.value, 3);
    assert_ok(cuGraphExternalSemaphoresSignalNodeGetParams(nodes[1], &signals));
    assert_int_equal(signals.numExtSems, 1);
    assert_ptr_equal(signals.extSemArray[0], second.semaphore);
    assert_int_equal(signals.paramsArray[0].params.fence.value, 3);
    assert_int_equal(cuGraphExternalSemaphoresSignalNodeGetParams(nodes[0], &signals),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphExternalSemaphoresWaitNodeGetParams(nodes[0], NULL),
                     CUDA_ERROR_INVALID_VALUE);
    executable = instantiate(graph);
    run_to(executable, first, second, 3);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    remove_timeline(first);
    remove_timeline(second);
}

static void test_semaphore_nodes_are_changed(void **state) {
    struct timeline first = create_timeline(), second = create_timeline(),
                    third = create_timeline();
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait[2] = {{.params.fence.value = 20}};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal[2] = {{.params.fence.value = 20}};
    CUexternalSemaphore pair[2] = {third.semaphore, first.semaphore};
    CUDA_EXT_SEM_WAIT_NODE_PARAMS waits = {pair, wait, 1};
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals = {&second.semaphore, signal, 1};
    CUgraph graph = create_graph();
    CUgraphExec executable;
    CUgraphNode nodes[2];

    (void)state;
    add_semaphores(graph, first, second, 3, nodes);
    executable = instantiate(graph);
    assert_ok(cuGraphExecExternalSemaphoresWaitNodeSetParams(executable, nodes[0], &waits));
    assert_ok(cuGraphExecExternalSemaphoresSignalNodeSetParams(executable, nodes[1], &signals));
    run_to(executable, third, second, 20);
    waits.numExtSems = signals.numExtSems = 2; /* "is not supported" */
    signals.extSemArray = pair;
    assert_int_equal(cuGraphExecExternalSemaphoresWaitNodeSetParams(executable, nodes[0], &waits),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuGraphExecExternalSemaphoresSignalNodeSetParams(executable, nodes[1], &signals),
        CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExternalSemaphoresWaitNodeSetParams(nodes[0], &waits));
    assert_ok(cuGraphExternalSemaphoresSignalNodeSetParams(nodes[1], &signals));
    assert_int_equal(cuGraphExternalSemaphoresSignalNodeSetParams(nodes[0], &signals),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExecDestroy(executable));
    run_once(graph); /* both have 20 and 0 */
    assert_int_equal(reached(third), 20);
    assert_int_equal(reached(first), 0);
    remove_timeline(first);
    remove_timeline(second);
    remove_timeline(third);
}

static void test_semaphore_nodes_that_cannot_be(void **state) {
    struct timeline timeline = create_timeline();
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.flags = 1};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.flags = 1};
    CUexternalSemaphore none = (CUexternalSemaphore)&wait;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS waits = {&timeline.semaphore, &wait, 1};
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals = {&timeline.semaphore, &signal, 1};
    CUgraph graph = create_graph();
    CUgraphNode node;

    (void)state;
    assert_int_equal(cuGraphAddExternalSemaphoresWaitNode(&node, graph, NULL, 0, &waits),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddExternalSemaphoresSignalNode(&node, graph, NULL, 0, &signals),
                     CUDA_ERROR_INVALID_VALUE);
    wait.flags = signal.flags = 0;
    waits.extSemArray = signals.extSemArray = &none;
    assert_int_equal(cuGraphAddExternalSemaphoresWaitNode(&node, graph, NULL, 0, &waits),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddExternalSemaphoresSignalNode(&node, graph, NULL, 0, &signals),
                     CUDA_ERROR_INVALID_VALUE);
    waits.extSemArray = NULL;
    signals.paramsArray = NULL;
    assert_int_equal(cuGraphAddExternalSemaphoresWaitNode(&node, graph, NULL, 0, &waits),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddExternalSemaphoresSignalNode(&node, graph, NULL, 0, &signals),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGraphAddExternalSemaphoresSignalNode(&node, graph, NULL, 0, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphDestroy(graph));
    remove_timeline(timeline);
}

/* --- whole graphs --- */

/* A graph as a capture makes it: a wait for `first`, a batch, a signal of `second`. */
static CUgraph capture(struct timeline first, struct timeline second, uint32_t value) {
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = value};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = value};
    CUstream stream;
    CUgraph graph;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(cuWaitExternalSemaphoresAsync(&first.semaphore, &wait, 1, stream));
    assert_ok(cuStreamWriteValue32_v2(stream, word, value, 0));
    assert_ok(cuSignalExternalSemaphoresAsync(&second.semaphore, &signal, 1, stream));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuStreamDestroy_v2(stream));
    return graph;
}

static void test_captured_nodes_are_told_and_changed(void **state) {
    struct timeline first = create_timeline(), second = create_timeline();
    CUgraph graph = capture(first, second, 4), clone;
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS signals;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS waits;
    CUgraphExec executable;
    CUgraphNode nodes[3], cloned;
    size_t count = 3;

    (void)state;
    assert_ok(cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 3);
    assert_ok(cuGraphExternalSemaphoresWaitNodeGetParams(nodes[0], &waits));
    assert_ptr_equal(waits.extSemArray[0], first.semaphore);
    assert_int_equal(waits.paramsArray[0].params.fence.value, 4);
    assert_ok(cuGraphBatchMemOpNodeGetParams(nodes[1], &batch));
    assert_ptr_equal(batch.ctx, test_context);
    assert_int_equal(batch.paramArray[0].writeValue.address, word);
    assert_ok(cuGraphExternalSemaphoresSignalNodeGetParams(nodes[2], &signals));
    assert_ptr_equal(signals.extSemArray[0], second.semaphore);
    assert_ok(cuGraphClone(&clone, graph));
    batch.paramArray = &(CUstreamBatchMemOpParams){0};
    *batch.paramArray = write_step(other, 44);
    assert_ok(cuGraphNodeFindInClone(&cloned, nodes[1], clone));
    assert_ok(cuGraphBatchMemOpNodeSetParams(cloned, &batch));
    assert_ok(cuGraphBatchMemOpNodeGetParams(nodes[1], &batch)); /* not changed with it */
    assert_int_equal(batch.paramArray[0].writeValue.address, word);
    executable = instantiate(clone);
    run_to(executable, first, second, 4);
    assert_int_equal(read_word(other), 44);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(clone));
    remove_timeline(first);
    remove_timeline(second);
}

static void test_an_executable_graph_is_updated(void **state) {
    struct timeline first = create_timeline(), second = create_timeline();
    CUgraph graph = capture(first, second, 5), next = capture(first, second, 6);
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait[2] = {{.params.fence.value = 6}};
    CUexternalSemaphore pair[2] = {first.semaphore, second.semaphore};
    CUDA_EXT_SEM_WAIT_NODE_PARAMS waits = {pair, wait, 2};
    CUstreamBatchMemOpParams steps[2] = {write_step(word, 1), write_step(word, 2)};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(steps, 2);
    CUgraphExec executable = instantiate(graph);
    CUgraphExecUpdateResultInfo info;
    CUgraphNode nodes[3];
    size_t count = 3;

    (void)state;
    assert_ok(cuGraphExecUpdate_v2(executable, next, &info));
    run_to(executable, first, second, 6);
    assert_int_equal(read_word(word), 6);
    assert_ok(cuGraphGetNodes(next, nodes, &count));
    assert_ok(cuGraphExternalSemaphoresWaitNodeSetParams(nodes[0], &waits));
    assert_int_equal(cuGraphExecUpdate_v2(executable, next, &info),
                     CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    assert_ptr_equal(info.errorNode, nodes[0]);
    waits.numExtSems = 1;
    assert_ok(cuGraphExternalSemaphoresWaitNodeSetParams(nodes[0], &waits));
    assert_ok(cuGraphBatchMemOpNodeSetParams(nodes[1], &batch));
    assert_int_equal(cuGraphExecUpdate_v2(executable, next, &info),
                     CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
    assert_ptr_equal(info.errorNode, nodes[1]);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuGraphDestroy(next));
    remove_timeline(first);
    remove_timeline(second);
}

static void test_a_child_graph_waits_and_writes(void **state) {
    struct timeline first = create_timeline(), second = create_timeline();
    CUgraph child = capture(first, second, 8), graph = create_graph();
    CUgraphExec executable;
    CUgraphNode node;

    (void)state;
    assert_ok(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    add_fill(graph, node, other, 80);
    executable = instantiate(graph);
    assert_ok(cuGraphDestroy(child));
    run_to(executable, first, second, 8);
    assert_int_equal(read_word(word), 8);
    assert_int_equal(read_word(other), 80);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    remove_timeline(first);
    remove_timeline(second);
}

static void test_what_the_nodes_do_is_printed(void **state) {
    struct timeline first = create_timeline(), second = create_timeline();
    CUgraph graph = capture(first, second, 77);
    char path[] = "/tmp/simcuda-dot-XXXXXX", text[4096], expected[64];
    int descriptor = mkstemp(path);
    size_t length;
    FILE *file;

    (void)state;
    assert_true(descriptor >= 0);
    assert_ok(cuGraphDebugDotPrint(graph, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
    file = fdopen(descriptor, "re");
    assert_non_null(file);
    length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    unlink(path);
    text[length] = '\0';
    assert_non_null(strstr(text, "EXT_SEMAS_WAIT"));
    assert_non_null(strstr(text, "EXT_SEMAS_SIGNAL"));
    snprintf(expected, sizeof expected, "semaphore %p value 77", (void *)second.semaphore);
    assert_non_null(strstr(text, expected));
    snprintf(expected, sizeof expected, "write 0x%llx value 77", (unsigned long long)word);
    assert_non_null(strstr(text, expected));
    assert_ok(cuGraphDestroy(graph));
    remove_timeline(first);
    remove_timeline(second);
}

/* --- nodes of any type --- */

#if CUDA_VERSION >= 12030
static void test_nodes_of_any_type(void **state) {
    struct timeline first = create_timeline(), second = create_timeline();
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = 1};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = 1};
    CUstreamBatchMemOpParams step = write_step(word, 1);
    CUgraphNodeParams waits = {.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT},
                      signals = {.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL},
                      batch = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    CUgraph graph = create_graph();
    CUgraphExec executable;
    CUgraphNode nodes[3];

    (void)state;
    waits.extSemWait.extSemArray = &first.semaphore;
    waits.extSemWait.paramsArray = &wait;
    waits.extSemWait.numExtSems = 1;
    signals.extSemSignal.extSemArray = &second.semaphore;
    signals.extSemSignal.paramsArray = &signal;
    signals.extSemSignal.numExtSems = 1;
    batch.memOp.count = 1;
    batch.memOp.paramArray = &step;
    assert_ok(cuGraphAddNode(&nodes[0], graph, NULL, 0, &waits));
    assert_ok(cuGraphAddNode(&nodes[1], graph, nodes, 1, &batch));
    assert_ok(cuGraphAddNode(&nodes[2], graph, nodes + 1, 1, &signals));
    wait.params.fence.value = signal.params.fence.value = 2;
    assert_ok(cuGraphNodeSetParams(nodes[0], &waits));
    assert_ok(cuGraphNodeSetParams(nodes[2], &signals));
    executable = instantiate(graph);
    step = write_step(other, 30);
    assert_ok(cuGraphExecNodeSetParams(executable, nodes[1], &batch));
    run_to(executable, first, second, 2);
    assert_int_equal(read_word(other), 30);
    wait.params.fence.value = signal.params.fence.value = 3;
    assert_ok(cuGraphExecNodeSetParams(executable, nodes[0], &waits));
    assert_ok(cuGraphExecNodeSetParams(executable, nodes[2], &signals));
    run_to(executable, first, second, 3);
    assert_int_equal(cuGraphExecNodeSetParams(executable, nodes[1], &waits),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    remove_timeline(first);
    remove_timeline(second);
}

/* "Allowed node types are kernel nodes, empty nodes, child graphs, memsets, memcopies, and
 * conditionals" (CUDA_CONDITIONAL_NODE_PARAMS). */
static void test_the_body_of_a_conditional_has_none_of_them(void **state) {
    CUgraphNodeParams conditional = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL};
    CUstreamBatchMemOpParams step = write_step(word, 1);
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = batch_of(&step, 1);
    CUgraph graph = create_graph();
    CUgraphNode node;

    (void)state;
    conditional.conditional.type = CU_GRAPH_COND_TYPE_IF;
    conditional.conditional.size = 1;
    assert_ok(
        cuGraphConditionalHandleCreate(&conditional.conditional.handle, graph, test_context, 0, 0));
    assert_ok(cuGraphAddNode(&node, graph, NULL, 0, &conditional));
    assert_int_equal(
        cuGraphAddBatchMemOpNode(&node, conditional.conditional.phGraph_out[0], NULL, 0, &batch),
        CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(cuGraphDestroy(graph));
}
#endif

static int set_up(void **state) {
    int result = set_up_context(state);
    void *memory;

    word = allocate_word();
    other = allocate_word();
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemHostAlloc(&memory, sizeof *host, CU_MEMHOSTALLOC_DEVICEMAP));
    host = memset(memory, 0, sizeof *host);
    return result;
}

static int tear_down(void **state) {
    assert_ok(cuMemFree_v2(word));
    assert_ok(cuMemFree_v2(other));
    assert_ok(cuMemFreeHost(host));
    assert_int_equal(simcuda_hazards(), 0);
    return tear_down_context(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_batch_comes_after_what_it_depends_on),
        cmocka_unit_test(test_a_batch_that_cannot_be),
        cmocka_unit_test(test_a_batch_without_a_context_has_the_current_one),
        cmocka_unit_test(test_a_batch_is_changed_in_its_graph_and_where_it_is_executed),
        cmocka_unit_test(test_what_a_batch_does_not_become_once_it_is_executable),
        cmocka_unit_test(test_semaphore_nodes_wait_and_signal),
        cmocka_unit_test(test_semaphore_nodes_are_changed),
        cmocka_unit_test(test_semaphore_nodes_that_cannot_be),
        cmocka_unit_test(test_captured_nodes_are_told_and_changed),
        cmocka_unit_test(test_an_executable_graph_is_updated),
        cmocka_unit_test(test_a_child_graph_waits_and_writes),
        cmocka_unit_test(test_what_the_nodes_do_is_printed),
#if CUDA_VERSION >= 12030
        cmocka_unit_test(test_nodes_of_any_type),
        cmocka_unit_test(test_the_body_of_a_conditional_has_none_of_them),
#endif
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
