/* Events that the program records and waits for around a free: each stands for the work before its
 * record, and the free's wait for the work before the free. */
#include "order.h"

static struct place place;
static CUdeviceptr flag;
static CUevent event;

static void start(void) {
    place = primary_place(0);
    flag = device_flag();
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
}

static void finish(void) {
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
}

/* Recorded before the free: done once the free has returned, in whatever stream. */
static void recorded_before(CUstream stream) {
    CUdeviceptr freed;
    freed = allocate(BYTES);
    keep_busy(&place, 60000000, stream);
    CHECK(cuEventRecord(event, stream));
    release(freed);
    printf("recorded before: %d\n", (int)cuEventQuery(event));
    printf("its stream: %d\n", (int)cuStreamQuery(stream));
}

static void before_in_legacy(void) {
    start();
    recorded_before(NULL);
}

static void before_in_non_blocking(void) {
    start();
    recorded_before(new_stream(CU_STREAM_NON_BLOCKING));
}

/* Recorded behind later work: not done, whoever asks, and asking waits for nothing. */
static void recorded_after(CUstream stream) {
    CUdeviceptr freed;
    freed = allocate(BYTES);
    fill(&place, freed, 3, stream);
    release(freed);
    wait_for_flag(&place, flag, stream);
    CHECK(cuEventRecord(event, stream));
    printf("recorded after: %d\n", (int)cuEventQuery(event));
    finish();
    printf("at the end: %d\n", (int)cuEventQuery(event));
}

static void after_in_legacy(void) {
    start();
    recorded_after(NULL);
}

static void after_in_non_blocking(void) {
    start();
    recorded_after(new_stream(CU_STREAM_NON_BLOCKING));
}

/* Recorded in front of later work, in the same stream, and waited for by the host. */
static void synchronized_in(CUstream stream) {
    CUdeviceptr freed = allocate(BYTES);
    fill(&place, freed, 3, stream);
    release(freed);
    fill(&place, place.kept, 7, stream);
    CHECK(cuEventRecord(event, stream));
    wait_for_flag(&place, flag, stream);
    CHECK(cuEventSynchronize(event));
    printf("synchronized: %d\n", (int)cuEventQuery(event));
    finish();
}

static void synchronized_before_later_work(void) {
    start();
    synchronized_in(new_stream(CU_STREAM_NON_BLOCKING));
}

static void synchronized_in_legacy(void) {
    start();
    synchronized_in(NULL);
}

/* A second stream waits, on the device, for an event of the first; the block goes from one to the
 * other by way of a free and an allocation. */
static void waited_for_on_the_device(void) {
    CUdeviceptr freed, next;
    CUstream first, second;
    uint32_t words[WORDS] = {0};
    start();
    first = new_stream(CU_STREAM_NON_BLOCKING);
    second = new_stream(CU_STREAM_NON_BLOCKING);
    freed = allocate(BYTES);
    keep_busy(&place, 2000000, first);
    fill(&place, freed, 3, first);
    CHECK(cuEventRecord(event, first));
    release(freed);
    CHECK(cuStreamWaitEvent(second, event, 0));
    wait_for_flag(&place, flag, first); /* behind the event, which is not recorded again */
    next = allocate(BYTES);
    fill(&place, next, 7, second);
    CHECK(cuMemcpyDtoHAsync_v2(words, next, BYTES, second));
    CHECK(cuStreamSynchronize(second));
    printf("in the second stream: %u\n", words[WORDS - 1]);
    finish();
}

/* An event of before the free, which another stream waits for that has been given later work. */
static void recorded_again(void) {
    CUdeviceptr freed;
    CUstream first, second;
    start();
    first = new_stream(CU_STREAM_NON_BLOCKING);
    second = new_stream(CU_STREAM_NON_BLOCKING);
    freed = allocate(BYTES);
    fill(&place, freed, 3, first);
    CHECK(cuEventRecord(event, first));
    CHECK(cuStreamWaitEvent(second, event, 0));
    release(freed);
    wait_for_flag(&place, flag, first);
    CHECK(cuEventRecord(event, first));
    printf("the first: %d\n", (int)cuEventQuery(event));
    CHECK(cuStreamSynchronize(second));
    printf("the second: %d\n", (int)cuStreamQuery(second));
    finish();
}

/* Two events of one stream time the free in between, which natively waits for another stream. */
static void timed_in(CUstream timed, CUstream busy) {
    enum { NS = 5000000 };
    CUevent begin, end;
    float ms;
    CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
    (void)allocate(BYTES);
    CUdeviceptr freed = allocate(BYTES);
    CHECK(cuEventRecord(begin, timed));
    keep_busy(&place, NS, busy);
    release(freed);
    CHECK(cuEventRecord(end, timed));
    CHECK(cuCtxSynchronize());
    CHECK(cuEventElapsedTime(&ms, begin, end));
    printf("between the events: %s\n", ms >= NS / 1e6F ? "the work before the free" : "less");
}

static void timed_in_legacy(void) {
    start();
    timed_in(NULL, new_stream(CU_STREAM_NON_BLOCKING));
}

static void timed_in_non_blocking(void) {
    start();
    timed_in(new_stream(CU_STREAM_NON_BLOCKING), NULL);
}

static void timed_beside_non_blocking(void) {
    start();
    timed_in(new_stream(CU_STREAM_NON_BLOCKING), new_stream(CU_STREAM_NON_BLOCKING));
}

static const struct order_case cases[] = {
    {"timed_in_legacy", timed_in_legacy},
    {"timed_in_non_blocking", timed_in_non_blocking},
    {"timed_beside_non_blocking", timed_beside_non_blocking},
    {"before_in_legacy", before_in_legacy},
    {"before_in_non_blocking", before_in_non_blocking},
    {"after_in_legacy", after_in_legacy},
    {"after_in_non_blocking", after_in_non_blocking},
    {"synchronized_before_later_work", synchronized_before_later_work},
    {"synchronized_in_legacy", synchronized_in_legacy},
    {"waited_for_on_the_device", waited_for_on_the_device},
    {"recorded_again", recorded_again},
};

ORDER_MAIN(cases)
