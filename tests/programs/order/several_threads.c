/* Several threads, each with a stream of its own, free and allocate in one context or in several:
 * each free waits for the work of its own context that came before it, and for nothing else. */
#include "order.h"

enum { THREADS = 4, PAIRS = 60 };

static struct place place, other;
static CUdeviceptr flag;

/* Allocates, works, checks and frees; returns how often a block was not what its owner wrote. */
static long pairs_in(const struct place *where, uint32_t value, CUstream stream) {
    long wrong = 0;
    for (int i = 0; i < PAIRS; i++) {
        uint32_t words[WORDS] = {0};
        CUdeviceptr block;
        block = allocate(BYTES);
        fill(where, block, value + (uint32_t)i, stream);
        CHECK(cuMemcpyDtoHAsync_v2(words, block, BYTES, stream));
        CHECK(cuStreamSynchronize(stream));
        wrong += words[0] != value + (uint32_t)i || words[WORDS - 1] != words[0];
        keep_busy(where, 20000, stream); /* both still run at the free */
        fill(where, block, ~value, stream);
        release(block);
    }
    return wrong;
}

static void *work_in_own_stream(void *data) {
    CHECK(cuCtxSetCurrent(place.context));
    return (void *)pairs_in(&place, (uint32_t)(uintptr_t)data * 1000,
                            new_stream(CU_STREAM_NON_BLOCKING));
}

static long wrong_of_threads(void *(*work)(void *)) {
    pthread_t threads[THREADS];
    long wrong = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *own;
        REQUIRE(pthread_join(threads[i], &own) == 0);
        wrong += (long)own;
    }
    return wrong;
}

static void in_one_context(void) {
    place = primary_place(0);
    printf("wrong: %ld\n", wrong_of_threads(work_in_own_stream));
}

/* Another context of the same device is busy from the first to the last. */
static void beside_a_busy_context(void) {
    long wrong;
    place = primary_place(0);
    other = created_place();
    flag = device_flag();
    wait_for_flag(&other, flag, NULL);
    CHECK(cuCtxSetCurrent(place.context));
    wrong = wrong_of_threads(work_in_own_stream);
    CHECK(cuCtxSetCurrent(other.context));
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
    printf("wrong: %ld\n", wrong);
}

/* Each thread has a context of its own, and each is busy while the one before it frees. */
static volatile uint32_t *own_flags[THREADS];
static CUdeviceptr own_device_flags[THREADS];
static pthread_barrier_t barrier;

static void *free_in_own_context(void *data) {
    uintptr_t number = (uintptr_t)data - 1;
    struct place own = created_place();
    CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr block;
    block = allocate(BYTES);
    fill(&own, block, 1, stream);
    pthread_barrier_wait(&barrier);
    if (number != 0) /* all but the first are busy until the one before has freed */
        wait_for_flag(&own, own_device_flags[number - 1], stream);
    pthread_barrier_wait(&barrier);
    release(block);
    set_flag(own_flags[number]);
    CHECK(cuCtxSynchronize());
    return (void *)pairs_in(&own, (uint32_t)number * 1000, stream);
}

static void chain_of_contexts(void) {
    place = primary_place(0);
    for (int i = 0; i < THREADS; i++)
        own_flags[i] = host_flag(&own_device_flags[i]);
    REQUIRE(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    printf("wrong: %ld\n", wrong_of_threads(free_in_own_context));
}

/* One thread frees, and another, which knows nothing of it, submits what runs until a flag is set.
 * The first goes on to a call that tells of its own work only. */
static void *submit_waiting_work(void *data) {
    CHECK(cuCtxSetCurrent(place.context));
    wait_for_flag(&place, flag, (CUstream)data);
    return NULL;
}

static void work_of_another_thread(void) {
    CUstream own, others;
    CUdeviceptr freed, next;
    CUevent event;
    pthread_t thread;
    uint32_t words[WORDS] = {0};
    place = primary_place(0);
    flag = device_flag();
    own = new_stream(CU_STREAM_NON_BLOCKING);
    others = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    freed = allocate(BYTES);
    fill(&place, freed, 3, own);
    release(freed);
    REQUIRE(pthread_create(&thread, NULL, submit_waiting_work, others) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    next = allocate(BYTES);
    fill(&place, next, 7, own);
    CHECK(cuEventRecord(event, own));
    CHECK(cuEventSynchronize(event));
    CHECK(cuMemcpyDtoHAsync_v2(words, next, BYTES, own));
    CHECK(cuStreamSynchronize(own));
    printf("own work: %u\n", words[WORDS - 1]);
    set_device_flag(flag);
    CHECK(cuCtxSynchronize());
}

/* The freeing thread waits in the free; others go on with what concerns them. */
static volatile uint32_t *gate;
static CUdeviceptr gate_device;
static bool free_is_over;

static void *free_behind_gate(void *data) {
    CHECK(cuCtxSetCurrent(place.context));
    release((CUdeviceptr)(uintptr_t)data);
    __atomic_store_n(&free_is_over, true, __ATOMIC_RELEASE);
    return NULL;
}

static void beside_a_waiting_free(void) {
    CUstream busy, own;
    CUdeviceptr freed, block;
    CUevent event;
    pthread_t thread;
    uint32_t words[WORDS] = {0};
    place = primary_place(0);
    gate = host_flag(&gate_device);
    busy = new_stream(CU_STREAM_NON_BLOCKING);
    own = new_stream(CU_STREAM_NON_BLOCKING);
    freed = allocate(BYTES);
    wait_for_flag(&place, gate_device, busy);
    REQUIRE(pthread_create(&thread, NULL, free_behind_gate, (void *)(uintptr_t)freed) == 0);
    while (waiting_threads() == 0 && !__atomic_load_n(&free_is_over, __ATOMIC_ACQUIRE))
        sched_yield();
    REQUIRE(!free_is_over); /* pinned memory shows what the kernel has done */
    block = allocate(BYTES);
    fill(&place, block, 7, own);
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, own));
    CHECK(cuEventSynchronize(event));
    CHECK(cuMemcpyDtoHAsync_v2(words, block, BYTES, own));
    CHECK(cuStreamSynchronize(own));
    printf("beside the free: %u\n", words[WORDS - 1]);
    set_flag(gate);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

/* Streams come and go, with work of their own, while a free waits. */
static void streams_end_beside_a_waiting_free(void) {
    pthread_t thread;
    CUdeviceptr freed;
    int ended = 0;
    place = primary_place(0);
    gate = host_flag(&gate_device);
    freed = allocate(BYTES);
    wait_for_flag(&place, gate_device, new_stream(CU_STREAM_NON_BLOCKING));
    REQUIRE(pthread_create(&thread, NULL, free_behind_gate, (void *)(uintptr_t)freed) == 0);
    while (waiting_threads() == 0 && !__atomic_load_n(&free_is_over, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int i = 0; i < 10; i++) {
        CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
        fill(&place, place.kept, 7, stream);
        ended += cuStreamDestroy_v2(stream) == CUDA_SUCCESS;
    }
    set_flag(gate);
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("streams that ended: %d\n", ended);
}

/* A thread frees behind a kernel in its own stream; the kernel ends with what this thread does in
 * its own one. Pinned memory has the free wait at once. */
static CUdeviceptr device_gate;
static bool kernel_waits;

static void *free_behind_own_kernel(void *freed) {
    CHECK(cuCtxSetCurrent(place.context));
    fill(&place, place.kept, 1, CU_STREAM_PER_THREAD);
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    wait_for_flag(&place, device_gate, CU_STREAM_PER_THREAD);
    __atomic_store_n(&kernel_waits, true, __ATOMIC_RELEASE);
    release((CUdeviceptr)(uintptr_t)freed);
    __atomic_store_n(&free_is_over, true, __ATOMIC_RELEASE);
    return NULL;
}

static void own_streams_beside_a_waiting_free(void) {
    pthread_t thread;
    CUdeviceptr freed;
    place = primary_place(0);
    gate = host_flag(&gate_device);
    device_gate = device_flag();
    freed = allocate(BYTES);
    REQUIRE(pthread_create(&thread, NULL, free_behind_own_kernel, (void *)(uintptr_t)freed) == 0);
    while (!__atomic_load_n(&kernel_waits, __ATOMIC_ACQUIRE))
        sched_yield();
    while (waiting_threads() == 0 && !__atomic_load_n(&free_is_over, __ATOMIC_ACQUIRE))
        sched_yield();
    CHECK(cuMemsetD32Async(device_gate, 1, 1, CU_STREAM_PER_THREAD));
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("the free is over\n");
}

/* A thread works in its own stream, frees and ends. The next one may have its address, and has
 * another own stream; it works in the same memory. */
static void *end_behind_own_work(void *data) {
    (void)data;
    CHECK(cuCtxSetCurrent(place.context));
    CUdeviceptr block = allocate(BYTES), other_block;
    for (int i = 0; i < 3; i++) { /* until no other stream has work that has not been waited for */
        other_block = allocate(2 * BYTES);
        fill(&place, other_block, 1, CU_STREAM_PER_THREAD);
        release(other_block);
        fill(&place, place.kept, 1, CU_STREAM_PER_THREAD);
        CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    }
    keep_busy(&place, 100000000, CU_STREAM_PER_THREAD);
    fill(&place, block, 1, CU_STREAM_PER_THREAD);
    release(block);
    return NULL;
}

static void *begin_in_its_place(void *data) {
    uint32_t *words = data;
    CHECK(cuCtxSetCurrent(place.context));
    CUdeviceptr block = allocate(BYTES);
    fill(&place, block, 7, CU_STREAM_PER_THREAD);
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH_v2(words, block, BYTES));
    release(block);
    return NULL;
}

static void in_place_of_a_thread_that_has_ended(void) {
    uint32_t words[WORDS] = {0};
    pthread_t thread;
    place = primary_place(0);
    REQUIRE(pthread_create(&thread, NULL, end_behind_own_work, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    REQUIRE(pthread_create(&thread, NULL, begin_in_its_place, words) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("the second thread's: %u\n", words[WORDS - 1]);
}

/* A thread frees what another one works with, as one that collects garbage does, and submits
 * nothing itself: natively it waits, and the other one does not. */
static void *free_only(void *freed) {
    CHECK(cuCtxSetCurrent(place.context));
    release((CUdeviceptr)(uintptr_t)freed);
    __atomic_store_n(&free_is_over, true, __ATOMIC_RELEASE);
    return NULL;
}

static void beside_a_thread_that_only_frees(void) {
    pthread_t thread;
    CUdeviceptr freed;
    place = primary_place(0);
    CUstream first = new_stream(CU_STREAM_NON_BLOCKING),
             second = new_stream(CU_STREAM_NON_BLOCKING);
    device_gate = device_flag();
    freed = allocate(BYTES);
    wait_for_flag(&place, device_gate, first);
    REQUIRE(pthread_create(&thread, NULL, free_only, (void *)(uintptr_t)freed) == 0);
    while (waiting_threads() == 0 && !__atomic_load_n(&free_is_over, __ATOMIC_ACQUIRE))
        sched_yield();
    CHECK(cuMemsetD32Async(device_gate, 1, 1, second));
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK(cuCtxSynchronize());
    printf("the free is over\n");
}

static const struct order_case cases[] = {
    {"in_one_context", in_one_context},
    {"beside_a_busy_context", beside_a_busy_context},
    {"chain_of_contexts", chain_of_contexts},
    {"work_of_another_thread", work_of_another_thread},
    {"beside_a_waiting_free", beside_a_waiting_free},
    {"streams_end_beside_a_waiting_free", streams_end_beside_a_waiting_free},
    {"own_streams_beside_a_waiting_free", own_streams_beside_a_waiting_free},
    {"in_place_of_a_thread_that_has_ended", in_place_of_a_thread_that_has_ended},
    {"beside_a_thread_that_only_frees", beside_a_thread_that_only_frees},
};

ORDER_MAIN(cases)
