/* Virtual time: what a program of one thread takes, to the nanosecond. The costs are the defaults
 * of settings.def. */
#include "test_sim.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LAUNCH = 3000, SYNC = 2000, EVENT = 700, MS = 1000000 };

static uint64_t start;

static uint64_t elapsed(void) {
    return simcuda_host_ns() - start;
}

static void begin(void) {
    assert_ok(cuCtxSynchronize());
    start = simcuda_host_ns();
}

static void spin(uint64_t ns, CUstream stream) {
    assert_ok(launch("spin_ns", stream, (void *[]){&ns}));
}

static CUstream create_stream(void) {
    CUstream stream;

    assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void test_a_wait_takes_the_host_to_the_end_of_the_work(void **state) {
    (void)state;
    begin();
    spin(MS, NULL);
    assert_int_equal(elapsed(), LAUNCH);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(elapsed(), LAUNCH + MS);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(elapsed(), LAUNCH + MS + SYNC);
}

static void test_work_of_the_host_runs_beside_the_device(void **state) {
    (void)state;
    begin();
    spin(MS, NULL);
    simcuda_host_works(2 * MS);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(elapsed(), LAUNCH + 2 * MS + SYNC);
}

static void test_streams_run_beside_each_other(void **state) {
    CUstream first = create_stream(), second = create_stream();
    CUevent event;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    begin();
    spin(MS, first);
    spin(MS, second);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(elapsed(), 2 * LAUNCH + MS);

    begin(); /* one behind the other */
    spin(MS, first);
    assert_ok(cuEventRecord(event, first));
    assert_ok(cuStreamWaitEvent(second, event, 0));
    spin(MS, second);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(elapsed(), LAUNCH + 2 * MS);

    begin(); /* in one stream */
    spin(MS, first);
    spin(MS, first);
    assert_ok(cuStreamSynchronize(first));
    assert_int_equal(elapsed(), LAUNCH + 2 * MS);
    assert_ok(cuEventDestroy_v2(event));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

static void test_a_query_says_what_is_so_at_the_threads_time(void **state) {
    CUevent event;

    (void)state;
    assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    begin();
    spin(MS, NULL);
    assert_ok(cuEventRecord(event, NULL));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
        assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    }
    assert_int_equal(elapsed(), LAUNCH + 21 * EVENT);
    simcuda_host_works(MS);
    assert_ok(cuStreamQuery(NULL));
    assert_ok(cuEventQuery(event));
    assert_int_equal(elapsed(), LAUNCH + MS + 23 * EVENT);
    assert_ok(cuEventDestroy_v2(event));
}

static void test_an_event_is_as_late_as_its_work(void **state) {
    CUevent first, second;
    float milliseconds;

    (void)state;
    assert_ok(cuEventCreate(&first, 0));
    assert_ok(cuEventCreate(&second, 0));
    begin();
    assert_ok(cuEventRecord(first, NULL));
    spin(5 * MS, NULL);
    assert_ok(cuEventRecord(second, NULL));
    assert_int_equal(cuEventElapsedTime(&milliseconds, first, second), CUDA_ERROR_NOT_READY);
    assert_ok(cuEventSynchronize(second));
    assert_ok(cuEventElapsedTime(&milliseconds, first, second));
    assert_true(milliseconds > 5.0F && milliseconds < 5.01F);
    assert_ok(cuEventDestroy_v2(first));
    assert_ok(cuEventDestroy_v2(second));
}

static void test_a_free_waits(void **state) {
    CUdeviceptr pointer;

    (void)state;
    assert_ok(cuMemAlloc_v2(&pointer, 4096));
    begin();
    spin(MS, NULL);
    assert_ok(cuMemFree_v2(pointer));
    assert_true(elapsed() > LAUNCH + MS && elapsed() < LAUNCH + 2 * MS);
}

/* The host goes on for 5 ms before it sets the flag, and the kernel until then. */
static void test_a_kernel_that_waits_ends_when_its_flag_is_set(void **state) {
    struct gate gate;

    (void)state;
    begin();
    gate = gate_close(NULL);
    simcuda_host_works(5 * MS);
    assert_int_equal(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    gate_open(gate);
    assert_ok(cuCtxSynchronize());
    assert_true(elapsed() >= 5 * MS && elapsed() < 6 * MS);
    gate_remove(gate);
}

/* As part of a graph, too: a question does not wait for it. */
static void test_a_graph_may_wait_for_the_host(void **state) {
    CUstream stream = create_stream();
    CUgraphExec executable;
    CUgraph graph;
    struct gate gate;

    (void)state;
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    gate = gate_close(stream);
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    assert_ok(cuGraphLaunch(executable, stream));
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    gate_remove(gate);
    assert_ok(cuStreamQuery(stream));
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuStreamDestroy_v2(stream));
}

/* The stream's wait is asked for before, after, and long after the other one's write. */
static void test_a_wait_ends_when_other_work_wrote_the_value(void **state) {
    CUstream writer = create_stream(), waiter = create_stream();
    CUdeviceptr word;

    (void)state;
    assert_ok(cuMemAlloc_v2(&word, 4));
    assert_ok(cuMemsetD32_v2(word, 0, 1));
    begin();
    assert_ok(cuStreamWaitValue32_v2(waiter, word, 1, 0));
    spin(MS, waiter);
    spin(5 * MS, writer);
    assert_ok(cuStreamWriteValue32_v2(writer, word, 1, 0));
    assert_int_equal(cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
    assert_ok(cuStreamSynchronize(waiter));
    assert_int_equal(elapsed(), EVENT + 2 * LAUNCH + 6 * MS);

    begin();
    spin(5 * MS, writer);
    assert_ok(cuStreamWriteValue32_v2(writer, word, 2, 0));
    spin(5 * MS, writer);
    assert_ok(cuStreamWriteValue32_v2(writer, word, 3, 0));
    simcuda_host_works(MS); /* the writer has done all of it by now, in real time */
    assert_ok(cuStreamWaitValue32_v2(waiter, word, 2, 0));
    spin(MS, waiter);
    assert_ok(cuStreamSynchronize(waiter));
    assert_int_equal(elapsed(), LAUNCH + 6 * MS);
    assert_ok(cuStreamWaitValue32_v2(waiter, word, 3, CU_STREAM_WAIT_VALUE_EQ));
    assert_ok(cuStreamSynchronize(waiter));
    assert_int_equal(elapsed(), LAUNCH + 10 * MS);
    assert_ok(cuStreamSynchronize(writer));

    begin();
    assert_ok(cuStreamWaitValue32_v2(waiter, word, 1, 0)); /* has been there for long */
    assert_ok(cuStreamSynchronize(waiter));
    assert_int_equal(elapsed(), EVENT + SYNC);
    assert_ok(cuMemFree_v2(word));
    assert_ok(cuStreamDestroy_v2(writer));
    assert_ok(cuStreamDestroy_v2(waiter));
}

/* Both know the semaphore by an import of their own. */
static void test_a_semaphore_has_the_time_of_its_signal(void **state) {
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC from = {
        .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD};
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = 1};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = 1};
    CUstream first = create_stream(), second = create_stream();
    CUexternalSemaphore semaphores[2];
    int file = memfd_create("test", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(ftruncate(file, 8), 0);
    for (int i = 0; i < 2; i++) {
        from.handle.fd = i == 0 ? dup(file) : file;
        assert_ok(cuImportExternalSemaphore(&semaphores[i], &from));
    }
    begin();
    spin(5 * MS, first);
    assert_ok(cuSignalExternalSemaphoresAsync(&semaphores[0], &signal, 1, first));
    simcuda_host_works(MS);
    assert_ok(cuWaitExternalSemaphoresAsync(&semaphores[1], &wait, 1, second));
    spin(MS, second);
    assert_ok(cuStreamSynchronize(second));
    assert_int_equal(elapsed(), LAUNCH + 6 * MS);
    assert_ok(cuDestroyExternalSemaphore(semaphores[0]));
    assert_ok(cuDestroyExternalSemaphore(semaphores[1]));
    assert_ok(cuStreamDestroy_v2(first));
    assert_ok(cuStreamDestroy_v2(second));
}

/* Two streams in step, whichever is ahead in real time: a producer of 2 ms, a consumer of 1 ms. */
static void test_streams_in_step_take_the_time_of_the_slower_one(void **state) {
    enum { STEPS = 100 };
    CUstream producer = create_stream(), consumer = create_stream();
    CUdeviceptr word;

    (void)state;
    assert_ok(cuMemAlloc_v2(&word, 8));
    assert_ok(cuMemsetD32_v2(word, 0, 2));
    begin();
    for (uint32_t i = 1; i <= STEPS; i++) {
        spin(2 * MS, producer);
        assert_ok(cuStreamWriteValue64_v2(producer, word, i, 0));
        assert_ok(cuStreamWaitValue64_v2(consumer, word, i, 0));
        spin(MS, consumer);
    }
    assert_ok(cuStreamSynchronize(consumer));
    assert_int_equal(elapsed(), LAUNCH + 2 * STEPS * MS + MS);
    assert_ok(cuMemFree_v2(word));
    assert_ok(cuStreamDestroy_v2(producer));
    assert_ok(cuStreamDestroy_v2(consumer));
}

/* As does a graph's: the rest of it takes its time behind the wait. */
static void test_a_wait_ends_when_the_host_wrote_the_value(void **state) {
    CUstream stream = create_stream();
    CUgraphExec executable;
    CUgraph graph;
    void *memory;
    uint32_t *word;

    (void)state;
    assert_ok(cuMemHostAlloc(&memory, sizeof *word, CU_MEMHOSTALLOC_DEVICEMAP));
    word = memory;
    *word = 0;
    assert_ok(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_ok(cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)memory, 1, 0));
    spin(MS, stream);
    assert_ok(cuStreamEndCapture(stream, &graph));
    assert_ok(cuGraphInstantiateWithFlags(&executable, graph, 0));
    begin();
    assert_ok(cuGraphLaunch(executable, stream));
    simcuda_host_works(5 * MS);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY); /* of what is behind it */
    simcuda_host_works(MS);
    assert_int_equal(cuStreamQuery(stream), CUDA_SUCCESS);
    assert_int_equal(elapsed(), LAUNCH + 6 * MS + 3 * EVENT);

    assert_ok(cuStreamWriteValue32_v2(stream, (CUdeviceptr)(uintptr_t)memory, 1, 0));
    assert_ok(cuStreamSynchronize(stream));
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
    begin();
    assert_ok(cuGraphLaunch(executable, stream));
    simcuda_host_works(5 * MS);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE); /* what work wrote long ago */
    assert_ok(cuStreamSynchronize(stream));
    assert_true(elapsed() >= 6 * MS && elapsed() < 7 * MS);
    assert_ok(cuGraphExecDestroy(executable));
    assert_ok(cuGraphDestroy(graph));
    assert_ok(cuMemFreeHost(memory));
    assert_ok(cuStreamDestroy_v2(stream));
}

static void test_what_calls_take_is_told_apart_from_waits(void **state) {
    uint64_t before;

    (void)state;
    begin();
    before = simcuda_host_calls_ns();
    spin(MS, NULL);
    simcuda_host_works(MS);
    assert_ok(cuCtxSynchronize());
    assert_int_equal(simcuda_host_calls_ns() - before, LAUNCH + SYNC);
}

static void await_host(void *data) {
    while (!atomic_load((atomic_bool *)data))
        sched_yield();
}

/* Though what the host works for is no device time: the function waits for the host. */
static void test_work_of_the_host_runs_beside_a_host_function(void **state) {
    (void)state;
    begin();
    for (int i = 0; i < 100; i++) {
        atomic_bool worked = false;

        assert_ok(cuLaunchHostFunc(NULL, await_host, &worked));
        simcuda_host_works(MS);
        atomic_store(&worked, true);
        assert_ok(cuCtxSynchronize());
    }
}

/* Pages take time to map: those that nobody got, none. */
static void test_memory_that_there_is_not_takes_no_time_to_map(void **state) {
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    enum { CREATE = 30000 };

    (void)state;
    begin();
    assert_int_equal(cuMemCreate(&handle, SIZE_MAX - 2 * MiB + 1, &properties, 0),
                     CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(elapsed(), CREATE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_takes_the_host_to_the_end_of_the_work),
        cmocka_unit_test(test_work_of_the_host_runs_beside_the_device),
        cmocka_unit_test(test_streams_run_beside_each_other),
        cmocka_unit_test(test_a_query_says_what_is_so_at_the_threads_time),
        cmocka_unit_test(test_an_event_is_as_late_as_its_work),
        cmocka_unit_test(test_a_free_waits),
        cmocka_unit_test(test_memory_that_there_is_not_takes_no_time_to_map),
        cmocka_unit_test(test_a_kernel_that_waits_ends_when_its_flag_is_set),
        cmocka_unit_test(test_a_graph_may_wait_for_the_host),
        cmocka_unit_test(test_a_wait_ends_when_other_work_wrote_the_value),
        cmocka_unit_test(test_a_semaphore_has_the_time_of_its_signal),
        cmocka_unit_test(test_streams_in_step_take_the_time_of_the_slower_one),
        cmocka_unit_test(test_a_wait_ends_when_the_host_wrote_the_value),
        cmocka_unit_test(test_what_calls_take_is_told_apart_from_waits),
        cmocka_unit_test(test_work_of_the_host_runs_beside_a_host_function),
    };

    return cmocka_run_group_tests(tests, set_up_context, tear_down_context);
}
