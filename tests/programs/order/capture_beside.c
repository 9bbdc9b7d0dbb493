/* One thread captures a stream, thread-locally, while another frees; two contexts are alive. What
 * the free waits for is no business of the capture's, nor the other way round. */
#include "order.h"

#include <stdatomic.h>

static struct place place, other;
static CUdeviceptr freed;
static bool free_is_over;

static void start(void) {
    place = primary_place(0);
    other = created_place();
    CHECK(cuCtxSetCurrent(place.context));
    freed = allocate(BYTES);
}

static void *free_it(void *data) {
    (void)data;
    CHECK(cuCtxSetCurrent(place.context));
    release(freed);
    __atomic_store_n(&free_is_over, true, __ATOMIC_RELEASE);
    return NULL;
}

/* Ends the capture, which took one fill, and runs it. */
static void end_and_run(CUstream stream) {
    CUgraph graph = NULL;
    CUgraphExec executable;
    size_t nodes = 0;
    uint32_t word = 0;
    CUresult result = cuStreamEndCapture(stream, &graph);
    if (result == CUDA_SUCCESS)
        CHECK(cuGraphGetNodes(graph, NULL, &nodes));
    printf("the capture ended with %d, nodes: %zu\n", (int)result, nodes);
    if (!graph)
        return;
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphLaunch(executable, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(&word, place.kept, sizeof word));
    printf("the graph wrote %u\n", word);
}

/* The other thread begins to free within the capture, and has freed before its end. */
static void free_within(void) {
    CUstream stream;
    pthread_t thread;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    REQUIRE(pthread_create(&thread, NULL, free_it, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    fill(&place, place.kept, 7, stream);
    end_and_run(stream);
}

/* The captured stream is of the other context; the free's wait is none of its business. */
static void captured_in_the_other(void) {
    CUstream stream;
    pthread_t thread;
    start();
    CHECK(cuCtxSetCurrent(other.context));
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    REQUIRE(pthread_create(&thread, NULL, free_it, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    place.kept = other.kept;
    fill(&other, place.kept, 7, stream);
    end_and_run(stream);
}

/* The free waits for a kernel; the capture begins, takes place and ends meanwhile. */
static void begun_beside_a_waiting_free(void) {
    CUstream stream, busy;
    CUdeviceptr flag;
    volatile uint32_t *host;
    pthread_t thread;
    start();
    host = host_flag(&flag);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    busy = new_stream(CU_STREAM_NON_BLOCKING);
    wait_for_flag(&place, flag, busy);
    REQUIRE(pthread_create(&thread, NULL, free_it, NULL) == 0);
    while (waiting_threads() == 0 && !__atomic_load_n(&free_is_over, __ATOMIC_ACQUIRE))
        sched_yield();
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fill(&place, place.kept, 7, stream);
    end_and_run(stream);
    set_flag(host);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* The free of a context without work, while the other context is busy. The capture begins
 * meanwhile, and ends when the free has returned, which natively it does at once. */
static void begun_beside_a_busy_context(void) {
    CUstream stream;
    CUdeviceptr flag;
    volatile uint32_t *host;
    pthread_t thread;
    start();
    host = host_flag(&flag);
    CHECK(cuCtxSetCurrent(other.context));
    wait_for_flag(&other, flag, NULL);
    CHECK(cuCtxSetCurrent(place.context));
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE(pthread_create(&thread, NULL, free_it, NULL) == 0);
    while (waiting_threads() == 0 && !__atomic_load_n(&free_is_over, __ATOMIC_ACQUIRE))
        sched_yield();
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    set_flag(host);
    REQUIRE(pthread_join(thread, NULL) == 0);
    fill(&place, place.kept, 7, stream);
    end_and_run(stream);
}

/* One thread alone: the free is over, a kernel that came later runs, the capture begins. */
static void begun_beside_a_later_kernel(void) {
    CUdeviceptr flag;
    CUstream stream;
    place = primary_place(0);
    flag = device_flag();
    freed = allocate(BYTES);
    fill(&place, freed, 3, NULL);
    release(freed);
    wait_for_flag(&place, flag, NULL);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fill(&place, place.kept, 7, stream);
    CUgraph graph = NULL;
    CUresult result = cuStreamEndCapture(stream, &graph);
    printf("the capture ended with %d\n", (int)result);
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
}

static void *work_there(void *stream) {
    CHECK(cuCtxSetCurrent(place.context));
    fill(&place, freed, 3, stream);
    return NULL;
}

/* The free waits for a kernel, at once as two threads have submitted work. A capture begins that
 * forbids frees in all threads; then the kernel ends, and with it the free, before the end of the
 * capture. */
static void capture_globally_beside(unsigned flags) {
    CUdeviceptr flag;
    pthread_t thread;
    CHECK(cuMemAllocAsync(&flag, BYTES, NULL));
    CHECK(cuMemsetD32Async(flag, 0, 1, NULL));
    CHECK(cuCtxSynchronize());
    CUstream stream = new_stream(flags), setter = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE(pthread_create(&thread, NULL, work_there, setter) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    wait_for_flag(&place, flag, new_stream(flags));
    REQUIRE(pthread_create(&thread, NULL, free_it, NULL) == 0);
    while (waiting_threads() == 0 && !__atomic_load_n(&free_is_over, __ATOMIC_ACQUIRE))
        sched_yield();
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuMemsetD32Async(flag, 1, 1, setter));
    REQUIRE(pthread_join(thread, NULL) == 0);
    fill(&place, place.kept, 7, stream);
    end_and_run(stream);
}

static void ended_in_a_global_one(void) {
    place = primary_place(0);
    freed = allocate(BYTES);
    capture_globally_beside(CU_STREAM_NON_BLOCKING);
}

static void ended_in_a_global_one_of_a_blocking_stream(void) {
    place = primary_place(0);
    freed = allocate(BYTES);
    capture_globally_beside(CU_STREAM_DEFAULT);
}

static void last_one_ended_in_a_global_one(void) {
    place = primary_place(0);
    release(place.kept);
    freed = allocate(BYTES);
    CHECK(cuMemAllocAsync(&place.kept, BYTES, NULL));
    capture_globally_beside(CU_STREAM_NON_BLOCKING);
}

/* Captures one after another in one thread while another allocates, works and frees. */
static bool over;

static void *free_all_the_time(void *data) {
    CUstream stream;
    CHECK(cuCtxSetCurrent(place.context));
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        CUdeviceptr pointer;
        pointer = allocate(BYTES);
        fill(&place, pointer, 1, stream);
        release(pointer);
    }
    return data;
}

static void beside_many_frees(void) {
    CUstream stream;
    pthread_t thread;
    int whole = 0;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE(pthread_create(&thread, NULL, free_all_the_time, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        CUgraph graph = NULL;
        if (cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) != CUDA_SUCCESS)
            continue;
        fill(&place, place.kept, 7, stream);
        whole += cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS && graph != NULL;
        if (graph)
            CHECK(cuGraphDestroy(graph));
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("graphs that are whole: %d of %d\n", whole, ROUNDS);
}

static atomic_int frees_begun;

static void *free_behind_long_work(void *data) {
    const uint64_t ns = 100000;
    CHECK(cuCtxSetCurrent(place.context));
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        CUdeviceptr pointer = allocate(BYTES);
        keep_busy(&place, ns, NULL);
        fill(&place, pointer, 1, NULL);
        atomic_fetch_add(&frees_begun, 1);
        release(pointer);
    }
    return data;
}

/* Each capture begins beside a free. The thread that captures submits nothing, so that the other's
 * frees owe their waits. */
static void empty_ones_beside_frees(void) {
    CUstream stream;
    pthread_t thread;
    place = primary_place(0);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    REQUIRE(pthread_create(&thread, NULL, free_behind_long_work, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        CUgraph graph = NULL;
        for (int begun = atomic_load(&frees_begun); atomic_load(&frees_begun) == begun;)
            sched_yield();
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphDestroy(graph));
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK(cuCtxSynchronize());
    printf("the frees spoiled nothing\n");
}

static const struct order_case cases[] = {
    {"empty_ones_beside_frees", empty_ones_beside_frees},
    {"free_within", free_within},
    {"captured_in_the_other", captured_in_the_other},
    {"begun_beside_a_waiting_free", begun_beside_a_waiting_free},
    {"begun_beside_a_busy_context", begun_beside_a_busy_context},
    {"begun_beside_a_later_kernel", begun_beside_a_later_kernel},
    {"ended_in_a_global_one", ended_in_a_global_one},
    {"ended_in_a_global_one_of_a_blocking_stream", ended_in_a_global_one_of_a_blocking_stream},
    {"last_one_ended_in_a_global_one", last_one_ended_in_a_global_one},
    {"beside_many_frees", beside_many_frees},
};

ORDER_MAIN(cases)
