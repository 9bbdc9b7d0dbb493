/* Rules of order of the simulated device that the tests of streams, captures and memory leave out.
 */
#include "test_sim.h"

#include <time.h>

static CUstream create_stream(void) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static CUresult query_after(CUevent event, CUstream stream) {
    assert_ok(cuEventRecord(event, stream));
    return cuEventQuery(event);
}

/* An executable graph runs once at a time, in whatever streams it is launched. */
static void test_launches_of_a_graph_follow_each_other(void **state) {
    CUstream first = create_stream(), second = create_stream();
    CUgraphExec executable, other;
    CUdeviceptr block;
    CUevent event;
    CUgraph graph;
    struct gate gate;

    (void)state;
    assert_ok(cuMemAlloc_v2(&block, 4096));
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(launch_fill(first, block, 1, 1));
    assert_ok(cuStreamEndCapture(first, &graph));
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphInstantiateWithFlags(&other, graph, 0));
    gate = gate_close(first);
    assert_ok(cuGraphLaunch(executable, first));
    assert_ok(cuGraphLaunch(other, second)); /* another executable does not wait */
    assert_ok(cuStreamSynchronize(second));
    assert_ok(cuGraphLaunch(executable, second));
    assert_int_equal(query_after(event, second), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuStreamSynchronize(second));
    gate_remove(gate);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphExecDestroy(other));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuMemFree_v2(block));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

/* Work of a stream that was destroyed before it was done: a free comes after it all the same. */
static void test_free_after_a_destroyed_stream(void **state) {
    uint64_t before = simcuda_hazards(), pause = 5000000;
    struct timespec until_drained = {.tv_nsec = 50000000};

    (void)state;
    for (int round = 0; round < 2; round++) {
        CUstream stream = create_stream();
        CUdeviceptr block;

        assert_ok(cuMemAlloc_v2(&block, 4096));
        assert_ok(launch("spin_ns", stream, (void *[]){&pause}));
        assert_ok(launch_fill(stream, block, 1, 1));
        assert_ok(cuStreamDestroy_v2(stream));
        if (round == 1)
            nanosleep(&until_drained, NULL);
        assert_ok(cuMemFree_v2(block));
        assert_int_equal(simcuda_hazards(), before);
    }
}

/* cuMemFree of stream-ordered memory waits for nothing: the program must have waited. */
static void test_free_of_stream_ordered_memory(void **state) {
    CUstream stream = create_stream();
    uint64_t before = simcuda_hazards();
    CUdeviceptr pointer;
    struct gate gate;

    (void)state;
    assert_ok(cuMemAllocAsync(&pointer, 4096, stream));
    assert_ok(launch_fill(stream, pointer, 1, 1));
    assert_ok(cuStreamSynchronize(stream));
    gate = gate_close(stream);
    assert_ok(cuMemFree_v2(pointer)); /* would never return if it waited */
    assert_int_equal(simcuda_hazards(), before);
    gate_remove(gate);

    assert_ok(cuMemAllocAsync(&pointer, 4096, stream));
    gate = gate_close(stream);
    assert_ok(cuMemcpyDtoDAsync_v2(pointer, pointer + 2048, 16, stream));
    assert_ok(cuMemFree_v2(pointer));
    assert_int_equal(simcuda_hazards(), before + 1);
    gate_open(gate);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* A context takes what cuMemAlloc made along, but not stream-ordered memory. */
static void test_stream_ordered_memory_outlives_its_context(void **state) {
    size_t before, after, total;
    CUdeviceptr pointer;
    CUcontext context;
    uint32_t value = 1;

    (void)state;
    assert_ok(cuMemGetInfo_v2(&before, &total));
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    assert_ok(cuMemAllocAsync(&pointer, 4 * MiB, NULL));
    assert_ok(cuCtxDestroy_v2(context));
    assert_ok(cuMemcpyDtoH_v2(&value, pointer, sizeof value));
    assert_int_equal(value, 0);
    assert_ok(cuMemFreeAsync(pointer, NULL));
    assert_ok(cuCtxSynchronize());
    assert_ok(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
}

/* A context cannot wait for an event that belongs to a capture. */
static void test_context_wait_for_a_captured_event(void **state) {
    CUstream stream = create_stream();
    CUevent event;
    CUgraph graph;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuEventRecord(event, stream));
    assert_int_equal(cuCtxWaitEvent(test_context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* The event may be of another context than the one that waits for it. */
static void test_context_wait_across_contexts(void **state) {
    CUstream stream = create_stream(), inside;
    struct gate gate = gate_close(stream);
    CUcontext context;
    CUevent event, after;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventRecord(event, stream));
    assert_ok(cuCtxCreate_v2(&context, 0, 0));
    inside = create_stream();
    assert_ok(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
    assert_ok(query_after(after, inside));
    assert_ok(cuCtxWaitEvent(context, event));
    assert_int_equal(query_after(after, inside), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuCtxSynchronize());
    assert_ok(cuCtxDestroy_v2(context));
    gate_remove(gate);
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(stream));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches_of_a_graph_follow_each_other),
        cmocka_unit_test(test_stream_ordered_memory_outlives_its_context),
        cmocka_unit_test(test_context_wait_for_a_captured_event),
        cmocka_unit_test(test_context_wait_across_contexts),
        cmocka_unit_test(test_free_after_a_destroyed_stream),
        cmocka_unit_test(test_free_of_stream_ordered_memory), /* last: its error is sticky */
    };

    return cmocka_run_group_tests(tests, set_up_context, NULL);
}
