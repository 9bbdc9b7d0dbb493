/* Work in one context that may have reached the memory of another, and behind it a kernel that runs
 * until the host sets its flag. A free in the other context has to do with the first at most. */
#include "order.h"

static struct place here, there;
static CUdeviceptr here_block, there_block, to_be_freed, flag;

static void start(void) {
    here = primary_place(0);
    here_block = allocate(BYTES);
    to_be_freed = allocate(BYTES);
    fill(&here, here_block, 7, NULL);
    CHECK(cuCtxSynchronize());
    there = created_place();
    there_block = allocate(BYTES);
    flag = device_flag();
}

/* The context whose kernel waits is current. */
static void free_behind(CUstream stream) {
    wait_for_flag(&there, flag, stream);
    CHECK(cuCtxSetCurrent(here.context));
    release(to_be_freed);
    CHECK(cuCtxSetCurrent(there.context));
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
    printf("the free did not wait\n");
}

static void copy_across(CUstream stream) {
    CHECK(cuMemcpyPeerAsync(there_block, there.context, here_block, here.context, BYTES, stream));
}

static void copy_that_is_done(void) {
    start();
    copy_across(NULL);
    CHECK(cuCtxSynchronize());
    free_behind(NULL);
}

static void copy_in_the_same_stream(void) {
    start();
    copy_across(NULL);
    free_behind(NULL);
}

static void copy_in_another_stream(void) {
    start();
    copy_across(new_stream(CU_STREAM_NON_BLOCKING));
    free_behind(new_stream(CU_STREAM_NON_BLOCKING));
}

static void *copy_there(void *unused) {
    (void)unused;
    CHECK(cuCtxSetCurrent(there.context));
    copy_across(CU_STREAM_PER_THREAD);
    return NULL;
}

static void copies_of_two_threads(void) {
    pthread_t thread;
    start();
    copy_across(NULL);
    REQUIRE(pthread_create(&thread, NULL, copy_there, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    free_behind(new_stream(CU_STREAM_NON_BLOCKING));
}

static void launch_graph(CUstream stream) {
    CUgraph graph;
    CUgraphExec executable;
    CUstream captured = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fill(&there, there_block, 9, captured);
    CHECK(cuStreamEndCapture(captured, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuGraphLaunch(executable, stream));
}

static void graph_that_is_done(void) {
    start();
    launch_graph(NULL);
    CHECK(cuCtxSynchronize());
    free_behind(NULL);
}

static void graph_in_the_same_stream(void) {
    CUstream stream;
    start();
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    launch_graph(stream);
    free_behind(stream);
}

/* Many copies in streams that are no more, whose events are not kept for ever. */
static void streams_that_come_and_go(void) {
    start();
    for (int i = 0; i < 200; i++) {
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
        copy_across(stream);
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamDestroy_v2(stream));
    }
    free_behind(new_stream(CU_STREAM_NON_BLOCKING));
}

/* The context in which the copies were made is no more. */
static void context_that_is_gone(void) {
    start();
    copy_across(NULL);
    CHECK(cuCtxSynchronize());
    CHECK(cuCtxDestroy_v2(there.context));
    there = created_place();
    there_block = allocate(BYTES);
    flag = device_flag();
    free_behind(NULL);
}

static const struct order_case cases[] = {
    {"copy_that_is_done", copy_that_is_done},
    {"copy_in_the_same_stream", copy_in_the_same_stream},
    {"copy_in_another_stream", copy_in_another_stream},
    {"copies_of_two_threads", copies_of_two_threads},
    {"graph_that_is_done", graph_that_is_done},
    {"graph_in_the_same_stream", graph_in_the_same_stream},
    {"streams_that_come_and_go", streams_that_come_and_go},
    {"context_that_is_gone", context_that_is_gone},
};

ORDER_MAIN(cases)
