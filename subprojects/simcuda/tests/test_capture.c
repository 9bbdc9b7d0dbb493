/* Stream capture and graphs of the simulated device. */
#include "test_sim.h"

#include <pthread.h>

#define GLOBAL       CU_STREAM_CAPTURE_MODE_GLOBAL
#define THREAD_LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED      CU_STREAM_CAPTURE_MODE_RELAXED

static CUstream create_stream(unsigned int flags) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, flags));
    return stream;
}

static uint32_t read_u32(CUdeviceptr pointer) {
    uint32_t value;

    assert_ok(cuMemcpyDtoH_v2(&value, pointer, sizeof value));
    return value;
}

static CUstreamCaptureStatus status_of(CUstream stream) {
    CUstreamCaptureStatus status;

    assert_ok(cuStreamIsCapturing(stream, &status));
    return status;
}

static void test_capture_and_replay(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream side = create_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr block, a, b;
    CUgraphExec executable;
    CUevent fork_event, join_event;
    uint64_t count = 1;
    size_t nodes = 0;
    CUgraph graph;

    (void)state;
    assert_ok(cuMemAlloc_v2(&block, 4096));
    a = block;
    b = block + 1024;
    assert_ok(cuEventCreate(&fork_event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventCreate(&join_event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuStreamBeginCapture_v2(stream, GLOBAL));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(launch("add_u32", stream, (void *[]){&a, &a, &b, &count})); /* a += b */
    assert_ok(cuEventRecord(fork_event, stream));
    assert_ok(cuStreamWaitEvent(side, fork_event, 0)); /* draws the other stream in */
    assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_ok(cuMemsetD32Async(b, 10, 1, side));
    assert_ok(cuEventRecord(join_event, side));
    assert_ok(cuStreamWaitEvent(stream, join_event, 0));
    assert_ok(cuMemcpyDtoDAsync_v2(block + 2048, b, 4, stream));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_ok(cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 3);
    assert_int_equal(read_u32(b), 0); /* recorded, not executed */
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphDestroy(graph));
    for (int i = 0; i < 3; i++)
        assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(read_u32(a), 20); /* 0, 10, 10 */
    assert_int_equal(read_u32(block + 2048), 10);
    assert_ok(cuGraphExecDestroy(executable));
    assert_int_equal(cuGraphLaunch(executable, stream), CUDA_ERROR_INVALID_VALUE);
    assert_ok(cuEventDestroy_v2(fork_event));
    assert_ok(cuEventDestroy_v2(join_event));
    assert_ok(cuMemFree_v2(block));
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuStreamDestroy_v2(side));
}

/* What a thread may not do while a capture is under way. Each returns its result. */
static CUdeviceptr victim;
static CUevent idle_event;

static CUresult call_alloc(CUstream stream) {
    CUdeviceptr pointer;

    (void)stream;
    return cuMemAlloc_v2(&pointer, 1);
}

static CUresult call_free(CUstream stream) {
    (void)stream;
    return cuMemFree_v2(victim);
}

static CUresult call_event_query(CUstream stream) {
    (void)stream;
    return cuEventQuery(idle_event);
}

static CUresult call_stream_synchronize(CUstream stream) {
    return cuStreamSynchronize(stream);
}

static CUresult call_context_synchronize(CUstream stream) {
    (void)stream;
    return cuCtxSynchronize();
}

static CUresult call_legacy_memset(CUstream stream) {
    (void)stream;
    return cuMemsetD8_v2(victim, 0, 1);
}

static CUresult call_legacy_record(CUstream stream) {
    (void)stream;
    return cuEventRecord(idle_event, CU_STREAM_LEGACY);
}

static CUresult call_context_record(CUstream stream) {
    (void)stream;
    return cuCtxRecordEvent(test_context, idle_event);
}

/* Makes one call during a capture; whether it fails with `expected` and, if so, invalidates. */
static void check(CUstreamCaptureMode mode, unsigned int stream_flags, CUresult (*call)(CUstream),
                  CUresult expected) {
    CUstream stream = create_stream(stream_flags);
    CUgraph graph;

    assert_ok(cuStreamBeginCapture_v2(stream, mode));
    assert_int_equal(call(stream), expected);
    if (expected == CUDA_SUCCESS) {
        assert_ok(cuStreamEndCapture(stream, &graph));
        assert_ok(cuGraphDestroy(graph));
    } else {
        assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
        assert_int_equal(launch_fill(stream, victim, 1, 1), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        assert_null(graph);
    }
    assert_int_equal(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_prohibited_calls(void **state) {
    const CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    const CUresult implicit = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;

    (void)state;
    assert_ok(cuMemAlloc_v2(&victim, 4096));
    assert_ok(cuEventCreate(&idle_event, CU_EVENT_DISABLE_TIMING));
    check(GLOBAL, CU_STREAM_NON_BLOCKING, call_alloc, unsupported);
    check(THREAD_LOCAL, CU_STREAM_NON_BLOCKING, call_alloc, unsupported);
    check(RELAXED, CU_STREAM_NON_BLOCKING, call_alloc, CUDA_SUCCESS);
    check(GLOBAL, CU_STREAM_NON_BLOCKING, call_free, unsupported);
    check(GLOBAL, CU_STREAM_NON_BLOCKING, call_event_query, unsupported);
    check(RELAXED, CU_STREAM_NON_BLOCKING, call_event_query, CUDA_SUCCESS);
    check(RELAXED, CU_STREAM_NON_BLOCKING, call_stream_synchronize, unsupported);
    check(RELAXED, CU_STREAM_NON_BLOCKING, call_context_synchronize, unsupported);
    check(RELAXED, CU_STREAM_NON_BLOCKING, call_context_record, unsupported);
    check(RELAXED, CU_STREAM_NON_BLOCKING, call_legacy_memset, CUDA_SUCCESS);
    check(RELAXED, CU_STREAM_DEFAULT, call_legacy_memset, implicit);
    check(RELAXED, CU_STREAM_DEFAULT, call_legacy_record, implicit);
    check(RELAXED, CU_STREAM_NON_BLOCKING, call_free, CUDA_SUCCESS);
    assert_ok(cuEventDestroy_v2(idle_event));
}

struct elsewhere {
    CUstreamCaptureMode own_mode;
    CUresult result;
};

static void *allocate_elsewhere(void *argument) {
    struct elsewhere *elsewhere = argument;

    assert_ok(cuCtxSetCurrent(test_context));
    assert_ok(cuThreadExchangeStreamCaptureMode(&elsewhere->own_mode));
    elsewhere->result = call_alloc(NULL);
    return NULL;
}

static CUresult allocate_in_another_thread(CUstreamCaptureMode capture, CUstreamCaptureMode own) {
    struct elsewhere elsewhere = {.own_mode = own};
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    pthread_t thread;
    CUresult ended;
    CUgraph graph;

    assert_ok(cuStreamBeginCapture_v2(stream, capture));
    assert_int_equal(pthread_create(&thread, NULL, allocate_elsewhere, &elsewhere), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    ended = cuStreamEndCapture(stream, &graph);
    assert_int_equal(ended == CUDA_SUCCESS, elsewhere.result == CUDA_SUCCESS);
    if (ended == CUDA_SUCCESS)
        assert_ok(cuGraphDestroy(graph));
    assert_ok(cuStreamDestroy_v2(stream));
    return elsewhere.result;
}

static void test_other_threads(void **state) {
    (void)state;
    assert_int_equal(allocate_in_another_thread(GLOBAL, GLOBAL),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_ok(allocate_in_another_thread(GLOBAL, THREAD_LOCAL));
    assert_ok(allocate_in_another_thread(GLOBAL, RELAXED));
    assert_ok(allocate_in_another_thread(THREAD_LOCAL, GLOBAL));
    assert_ok(allocate_in_another_thread(RELAXED, GLOBAL));
}

static void test_begin_and_end(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph = (CUgraph)&graph;

    (void)state;
    assert_int_equal(cuStreamBeginCapture_v2(CU_STREAM_LEGACY, GLOBAL),
                     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_ILLEGAL_STATE);
    assert_ok(cuStreamBeginCapture(stream)); /* the form of CUDA 10.0: global */
    assert_int_equal(cuStreamBeginCapture_v2(stream, GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
    assert_int_equal(call_alloc(NULL), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(graph);
    assert_ok(cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, GLOBAL));
    assert_ok(cuStreamEndCapture_ptsz(NULL, &graph));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* Dependencies may not cross the border of a capture. */
static void test_borders(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    CUstream side = create_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    CUgraph graph;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_ok(cuEventRecord(event, side));
    assert_ok(cuStreamBeginCapture_v2(stream, RELAXED));
    assert_int_equal(cuStreamWaitEvent(stream, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    assert_ok(cuStreamBeginCapture_v2(stream, RELAXED));
    assert_ok(cuEventRecord(event, stream));
    assert_ok(cuStreamWaitEvent(side, event, 0));
    assert_ok(cuMemsetD8Async(victim, 0, 1, side));
    assert_int_equal(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_null(graph);
    assert_int_equal(status_of(side), CU_STREAM_CAPTURE_STATUS_NONE);

    assert_ok(cuStreamBeginCapture_v2(stream, RELAXED));
    assert_ok(cuEventRecord(event, stream));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

    assert_ok(cuStreamBeginCapture_v2(stream, RELAXED));
    assert_ok(cuStreamBeginCapture_v2(side, RELAXED));
    assert_ok(cuEventRecord(event, stream));
    assert_int_equal(cuStreamWaitEvent(side, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_int_equal(cuStreamEndCapture(side, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuStreamDestroy_v2(side));
}

static void test_info(void **state) {
    CUstream stream = create_stream(CU_STREAM_DEFAULT);
    const CUgraphNode *dependencies = NULL;
    CUstreamCaptureStatus status;
    CUdeviceptr pointer;
    cuuint64_t id = 0;
    size_t count = 9;
    CUgraph graph = NULL, ended;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, 16));
    assert_ok(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &dependencies, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    assert_ok(cuStreamBeginCapture_v2(stream, THREAD_LOCAL));
    assert_ok(launch_fill(stream, pointer, 1, 1));
    assert_ok(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &dependencies, &count));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    assert_int_not_equal(id, 0);
    assert_int_equal(count, 1);
    assert_non_null(dependencies[0]);
    assert_int_equal(cuStreamIsCapturing(CU_STREAM_LEGACY, &status),
                     CUDA_ERROR_STREAM_CAPTURE_IMPLICIT); /* asking does no harm */
    assert_ok(cuStreamEndCapture(stream, &ended));
    assert_ptr_equal(ended, graph);
    assert_ok(cuGraphDestroy(ended));
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuStreamDestroy_v2(stream));
}

static CUresult recapture(CUstream stream, CUgraph graph, CUdeviceptr pointer, unsigned int sets,
                          CUgraph *ended) {
    CUresult result = CUDA_SUCCESS;

    assert_ok(cuStreamBeginRecaptureToGraph(stream, GLOBAL, graph, NULL, NULL));
    for (unsigned int i = 0; i < sets && result == CUDA_SUCCESS; i++)
        result = cuMemsetD32Async(pointer + 4 * i, 7, 1, stream);
    assert_int_equal(cuStreamEndCapture(stream, ended),
                     sets == 2 ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    return result;
}

/* The graph keeps its handle and gets other parameters, never other nodes. */
static void test_a_graph_is_captured_anew(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    CUgraph graph, ended;
    CUgraphExec executable;
    CUdeviceptr pointer;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, 16));
    assert_ok(cuStreamBeginCapture_v2(stream, GLOBAL));
    assert_ok(cuMemsetD32Async(pointer, 1, 1, stream));
    assert_ok(cuMemsetD32Async(pointer + 4, 1, 1, stream));
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_int_equal(cuStreamBeginRecaptureToGraph(stream, GLOBAL, NULL, NULL, NULL),
                     CUDA_ERROR_INVALID_VALUE);
    assert_ok(recapture(stream, graph, pointer, 2, &ended));
    assert_ptr_equal(ended, graph);
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphLaunch(executable, stream));
    assert_ok(cuStreamSynchronize(stream));
    assert_int_equal(read_u32(pointer), 7);
    assert_int_equal(read_u32(pointer + 4), 7);
    assert_int_equal(recapture(stream, graph, pointer, 3, &ended),
                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    assert_null(ended);
    assert_ok(recapture(stream, graph, pointer, 1, &ended));
    assert_null(ended);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuMemFree_v2(pointer));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* A capturing stream that is destroyed takes its capture along. */
static void test_destroyed_while_capturing(void **state) {
    CUstream stream = create_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr pointer;

    (void)state;
    assert_ok(cuStreamBeginCapture_v2(stream, GLOBAL));
    assert_ok(cuStreamDestroy_v2(stream));
    assert_ok(cuMemAlloc_v2(&pointer, 1));
    assert_ok(cuMemFree_v2(pointer));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capture_and_replay),
        cmocka_unit_test(test_prohibited_calls),
        cmocka_unit_test(test_other_threads),
        cmocka_unit_test(test_begin_and_end),
        cmocka_unit_test(test_borders),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_a_graph_is_captured_anew),
        cmocka_unit_test(test_destroyed_while_capturing),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
