/* With POOLCUDA_ZERO=1 memory that serves again is cleared first: behind nothing that natively
 * comes later, and before all that the program does with it. */
#include "order.h"

enum { LARGE = 1 << 20 };

static struct place place;

static uint32_t word_at(CUdeviceptr pointer) {
    uint32_t word;
    CHECK(cuMemcpyDtoH_v2(&word, pointer, sizeof word));
    return word;
}

/* A block that was used, freed and is done with: the next one of its size is cleared. */
static void leave_used(void) {
    CUdeviceptr used = allocate(LARGE);
    fill(&place, used, 3, NULL);
    release(used);
    CHECK(cuCtxSynchronize());
}

static void written_in_a_non_blocking_stream(void) {
    place = primary_place(0);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING), busy = new_stream(CU_STREAM_DEFAULT);
    leave_used();
    keep_busy(&place, 100000000, busy);
    CUdeviceptr block = allocate(LARGE);
    fill(&place, block, 7, stream);
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuCtxSynchronize());
    printf("%u, then %u\n", word_at(block), word_at(block + BYTES));
}

static void beside_a_kernel(CUstream stream) {
    CUdeviceptr flag = device_flag();
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    leave_used();
    wait_for_flag(&place, flag, stream);
    CUdeviceptr block = allocate(LARGE);
    fill(&place, block, 7, other);
    CHECK(cuStreamSynchronize(other));
    CHECK(cuMemsetD32Async(flag, 1, 1, other));
    CHECK(cuCtxSynchronize());
    printf("%u, then %u\n", word_at(block), word_at(block + BYTES));
}

static void beside_a_kernel_of_one_thread(void) {
    place = primary_place(0);
    beside_a_kernel(new_stream(CU_STREAM_NON_BLOCKING));
}

static void beside_a_kernel_in_a_blocking_stream(void) {
    place = primary_place(0);
    beside_a_kernel(new_stream(CU_STREAM_DEFAULT));
}

static void beside_a_kernel_in_the_legacy_stream(void) {
    place = primary_place(0);
    beside_a_kernel(CU_STREAM_LEGACY);
}

static void beside_a_kernel_in_the_threads_own_stream(void) {
    place = primary_place(0);
    beside_a_kernel(CU_STREAM_PER_THREAD);
}

/* What the block's last owner has submitted ends long after the free returns, where it owes. */
static void behind_the_work_before_the_free(void) {
    place = primary_place(0);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    leave_used();
    CUdeviceptr used = allocate(LARGE);
    keep_busy(&place, 100000000, stream);
    fill(&place, used + BYTES, 3, stream);
    release(used);
    CUdeviceptr block = allocate(LARGE);
    fill(&place, block, 7, stream);
    CHECK(cuCtxSynchronize());
    printf("%u, then %u\n", word_at(block), word_at(block + BYTES));
}

static void *submit(void *stream) {
    CHECK(cuCtxSetCurrent(place.context));
    keep_busy(&place, 1000, stream);
    CHECK(cuStreamSynchronize(stream));
    return NULL;
}

static void beside_a_kernel_of_several_threads(void) {
    pthread_t thread;
    place = primary_place(0);
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    keep_busy(&place, 1000, stream);
    CHECK(cuCtxSynchronize());
    pthread_create(&thread, NULL, submit, new_stream(CU_STREAM_NON_BLOCKING));
    pthread_join(thread, NULL);
    beside_a_kernel(stream);
}

static const struct order_case cases[] = {
    {"written_in_a_non_blocking_stream", written_in_a_non_blocking_stream},
    {"beside_a_kernel_of_one_thread", beside_a_kernel_of_one_thread},
    {"beside_a_kernel_in_a_blocking_stream", beside_a_kernel_in_a_blocking_stream},
    {"beside_a_kernel_in_the_legacy_stream", beside_a_kernel_in_the_legacy_stream},
    {"beside_a_kernel_in_the_threads_own_stream", beside_a_kernel_in_the_threads_own_stream},
    {"behind_the_work_before_the_free", behind_the_work_before_the_free},
    {"beside_a_kernel_of_several_threads", beside_a_kernel_of_several_threads},
};

ORDER_MAIN(cases)
