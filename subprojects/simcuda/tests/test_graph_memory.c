/* Stream-ordered allocation in a capture: memory that belongs to the graph. */
#include "test_sim.h"

static CUstream stream;

static size_t available(void) {
    size_t free_bytes, total;

    assert_ok(cuMemGetInfo_v2(&free_bytes, &total));
    return free_bytes;
}

static void begin(void) {
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

static CUgraphExec end(unsigned long long flags) {
    CUgraphExec executable;
    CUgraph graph;

    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, flags));
    assert_ok(cuGraphDestroy(graph));
    return executable;
}

/* A graph that allocates and fills 4 MiB and leaves it allocated. */
static CUgraphExec capture_unfreed(CUdeviceptr *pointer, unsigned long long flags) {
    begin();
    assert_ok(cuMemAllocAsync(pointer, 4 * MiB, stream));
    assert_ok(launch_fill(stream, *pointer, MiB, 5));
    return end(flags);
}

static uint32_t read_u32(CUdeviceptr pointer) {
    uint32_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, pointer, sizeof value));
    return value;
}

static void test_freed_in_the_graph(void **state) {
    CUdeviceptr result, temporary;
    CUgraphExec executable;
    size_t before, nodes = 0;
    CUgraph graph;

    (void)state;
    assert_ok(cuMemAlloc_v2(&result, 4096));
    before = available();
    begin();
    assert_ok(cuMemAllocAsync(&temporary, 4 * MiB, stream));
    assert_ok(cuMemsetD32Async(temporary, 7, MiB, stream));
    assert_ok(cuMemcpyDtoDAsync_v2(result, temporary + 2 * MiB, 4, stream));
    assert_ok(cuMemFreeAsync(temporary, stream));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 4);
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(available(), before); /* nothing is taken before the first launch */
    for (int i = 0; i < 2; i++)
        assert_ok(cuGraphLaunch(executable, stream));
    assert_int_equal(available(), before - 4 * MiB);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(read_u32(result), 7);
    assert_int_equal(cuMemFree_v2(temporary), CUDA_ERROR_INVALID_VALUE); /* its graph frees it */
    assert_ok(cuGraphExecDestroy(executable));
    assert_int_equal(available(), before);
    assert_int_equal(cuMemGetAddressRange_v2(NULL, NULL, temporary), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuMemFree_v2(result));
    assert_int_equal(simcuda_hazards(), 0);
}

static void test_left_allocated(void **state) {
    size_t before = available();
    CUdeviceptr pointer;
    CUgraphExec executable = capture_unfreed(&pointer, 0);

    (void)state;
    assert_int_equal(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE); /* never launched */
    assert_ok(cuGraphLaunch(executable, stream));
    assert_int_equal(cuGraphLaunch(executable, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(read_u32(pointer), 5); /* the program may use it */
    assert_ok(cuMemFreeAsync(pointer, stream));
    assert_int_equal(cuMemFreeAsync(pointer, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuGraphExecDestroy(executable));
    assert_int_equal(read_u32(pointer + 4), 5); /* it outlives the graph */
    assert_ok(cuMemFree_v2(pointer));
    assert_int_equal(cuMemFree_v2(pointer), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(available(), before);
    assert_int_equal(simcuda_hazards(), 0);
}

static void test_auto_free(void **state) {
    CUdeviceptr pointer;
    CUgraphExec executable =
        capture_unfreed(&pointer, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuMemFreeAsync(pointer, stream));
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(cuMemGetAddressRange_v2(NULL, NULL, pointer), CUDA_ERROR_NOT_FOUND);
}

/* A graph frees what another one allocated. */
static void test_freed_by_another_graph(void **state) {
    CUdeviceptr pointer;
    CUgraphExec allocating = capture_unfreed(&pointer, 0), freeing;

    (void)state;
    begin();
    assert_ok(cuMemFreeAsync(pointer, stream));
    freeing = end(0);
    for (int i = 0; i < 2; i++) {
        assert_ok(cuGraphLaunch(allocating, stream));
        assert_ok(cuGraphLaunch(freeing, stream));
    }
    assert_ok(cuGraphExecDestroy(allocating));
    assert_ok(cuGraphExecDestroy(freeing));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(cuMemGetAddressRange_v2(NULL, NULL, pointer), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(simcuda_hazards(), 0);
}

static void test_out_of_memory(void **state) {
    CUdeviceptr pointer, all;
    CUgraphExec executable = capture_unfreed(&pointer, 0);

    (void)state;
    assert_ok(cuMemAlloc_v2(&all, available()));
    assert_int_equal(cuGraphUpload(executable, stream), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuGraphLaunch(executable, stream), CUDA_ERROR_OUT_OF_MEMORY);
    assert_ok(cuMemFree_v2(all));
    assert_ok(cuGraphUpload(executable, stream));
    assert_ok(cuMemAlloc_v2(&all, available()));
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuMemFree_v2(all));
    assert_ok(cuMemFreeAsync(pointer, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_ok(cuGraphExecDestroy(executable));
}

static void test_what_a_capture_may_not_free(void **state) {
    CUdeviceptr plain, pointer;
    CUgraph graph;

    (void)state;
    assert_ok(cuMemAlloc_v2(&plain, 4096));
    begin();
    assert_int_equal(cuMemAllocAsync(&pointer, 0, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFreeAsync(plain, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuMemAllocAsync(&pointer, 100, stream));
    assert_ok(cuMemFreeAsync(pointer, stream));
    assert_int_equal(cuMemFreeAsync(pointer, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphDestroy(graph));
    assert_int_equal(cuMemGetAddressRange_v2(NULL, NULL, pointer), CUDA_ERROR_NOT_FOUND);
    assert_ok(cuMemFree_v2(plain));
}

static int set_up(void **state) {
    set_up_context(state);
    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

static int tear_down(void **state) {
    assert_ok(cuStreamDestroy_v2(stream));
    return tear_down_context(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_freed_in_the_graph),
        cmocka_unit_test(test_left_allocated),
        cmocka_unit_test(test_auto_free),
        cmocka_unit_test(test_freed_by_another_graph),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_what_a_capture_may_not_free),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
