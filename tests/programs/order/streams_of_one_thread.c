/* One thread, several streams. Free; work in one stream that runs until a flag is set; memory of
 * the freed size, and work on it in another stream, whose result is read; only then is the flag
 * set. */
#include "order.h"

static struct place place;
static CUdeviceptr flag;

/* What the second stream has made of a block of the freed size. */
static uint32_t result_in(CUstream stream, CUdeviceptr *block) {
    uint32_t words[WORDS] = {0};
    *block = allocate(BYTES);
    fill(&place, *block, 7, stream);
    CHECK(cuMemcpyDtoHAsync_v2(words, *block, BYTES, stream)); /* pageable: it waits for the copy */
    CHECK(cuStreamSynchronize(stream));
    return words[0] == words[WORDS - 1] ? words[0] : 0;
}

/* used_in: where the freed block was filled last, and filled late. */
static void with(CUstream used_in, CUstream waiting, CUstream working) {
    CUdeviceptr freed, next;
    freed = allocate(BYTES);
    keep_busy(&place, 2000000, used_in);
    fill(&place, freed, 3, used_in);
    release(freed);
    wait_for_flag(&place, flag, waiting);
    printf("beside the waiting stream: %u\n", result_in(working, &next));
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
    release(next);
}

static void start(void) {
    place = primary_place(0);
    flag = device_flag();
}

static void used_in_the_waiting_stream(void) {
    CUstream first, second;
    start();
    first = new_stream(CU_STREAM_NON_BLOCKING);
    second = new_stream(CU_STREAM_NON_BLOCKING);
    with(first, first, second);
}

static void used_in_the_working_stream(void) {
    CUstream first, second;
    start();
    first = new_stream(CU_STREAM_NON_BLOCKING);
    second = new_stream(CU_STREAM_NON_BLOCKING);
    with(second, first, second);
}

static void used_in_a_third_stream(void) {
    CUstream first, second;
    start();
    first = new_stream(CU_STREAM_NON_BLOCKING);
    second = new_stream(CU_STREAM_NON_BLOCKING);
    with(new_stream(CU_STREAM_NON_BLOCKING), first, second);
}

static void blocking_streams(void) {
    CUstream first, second;
    start();
    first = new_stream(CU_STREAM_DEFAULT);
    second = new_stream(CU_STREAM_DEFAULT);
    with(first, first, second);
}

static void legacy_waits(void) { /* only non-blocking streams do not wait for it */
    start();
    with(NULL, NULL, new_stream(CU_STREAM_NON_BLOCKING));
}

static void legacy_works(void) {
    CUstream waiting;
    start();
    waiting = new_stream(CU_STREAM_NON_BLOCKING);
    with(waiting, waiting, NULL);
}

static void per_thread_stream_works(void) {
    CUstream waiting;
    start();
    waiting = new_stream(CU_STREAM_NON_BLOCKING);
    with(waiting, waiting, CU_STREAM_PER_THREAD);
}

/* The working stream is made behind the free and the later work. */
static void made_later(void) {
    CUdeviceptr freed, next;
    CUstream waiting;
    start();
    waiting = new_stream(CU_STREAM_NON_BLOCKING);
    freed = allocate(BYTES);
    keep_busy(&place, 2000000, waiting);
    fill(&place, freed, 3, waiting);
    release(freed);
    wait_for_flag(&place, flag, waiting);
    printf("in a new stream: %u\n", result_in(new_stream(CU_STREAM_NON_BLOCKING), &next));
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
}

/* A stream that is destroyed leaves work behind; the free comes after it, what comes next does not
 * have to wait for anything later. */
static void destroyed_stream(void) {
    CUdeviceptr freed, next;
    CUstream waiting, working, gone;
    start();
    waiting = new_stream(CU_STREAM_NON_BLOCKING);
    working = new_stream(CU_STREAM_NON_BLOCKING);
    gone = new_stream(CU_STREAM_NON_BLOCKING);
    freed = allocate(BYTES);
    keep_busy(&place, 2000000, gone);
    fill(&place, freed, 3, gone);
    CHECK(cuStreamDestroy_v2(gone));
    release(freed);
    wait_for_flag(&place, flag, waiting);
    printf("behind a destroyed stream: %u\n", result_in(working, &next));
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
}

static const struct order_case cases[] = {
    {"used_in_the_waiting_stream", used_in_the_waiting_stream},
    {"used_in_the_working_stream", used_in_the_working_stream},
    {"used_in_a_third_stream", used_in_a_third_stream},
    {"blocking_streams", blocking_streams},
    {"legacy_waits", legacy_waits},
    {"legacy_works", legacy_works},
    {"per_thread_stream_works", per_thread_stream_works},
    {"made_later", made_later},
    {"destroyed_stream", destroyed_stream},
};

ORDER_MAIN(cases)
