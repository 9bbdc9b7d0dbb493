/* Free; work of another stream that runs until the host sets a flag; an allocation of the freed
 * size, which natively returns at once; only then is the flag set. */
#include "order.h"

#include <stdatomic.h>
#include <unistd.h>

static struct place place;

static void with_work_in(CUstream stream, bool used_there) {
    CUdeviceptr freed, flag;
    volatile uint32_t *host = host_flag(&flag);
    freed = allocate(BYTES);
    fill(&place, freed, 3, used_there ? stream : NULL);
    release(freed);
    wait_for_flag(&place, flag, stream);
    for (int i = 0; i < 3; i++) /* the first may find a fence to record, the next one to poll */
        (void)allocate(BYTES);
    set_flag(host);
    CHECK(cuCtxSynchronize());
    printf("the allocations did not wait\n");
}

static void non_blocking(void) {
    place = primary_place(0);
    with_work_in(new_stream(CU_STREAM_NON_BLOCKING), false);
}

static void non_blocking_user(void) {
    place = primary_place(0);
    with_work_in(new_stream(CU_STREAM_NON_BLOCKING), true);
}

static void blocking(void) {
    place = primary_place(0);
    with_work_in(new_stream(CU_STREAM_DEFAULT), false);
}

static void legacy(void) {
    place = primary_place(0);
    with_work_in(NULL, true);
}

/* The device is full: only what was freed can serve. Natively the free has given it back. */
static void full_device(void) {
    CUstream stream;
    CUdeviceptr flag, block;
    volatile uint32_t *host;
    size_t available, total, size;
    place = primary_place(0);
    host = host_flag(&flag);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuMemGetInfo_v2(&available, &total));
    size = available / 4 * 3;
    block = allocate(size);
    fill(&place, block, 3, stream);
    release(block);
    wait_for_flag(&place, flag, stream);
    (void)allocate(size);
    set_flag(host);
    CHECK(cuCtxSynchronize());
    printf("the allocations did not wait\n");
}

/* A capture lies between the free and the later work, or goes on while that is submitted. */
static void with_capture(bool beside) {
    CUstream stream, captured;
    CUdeviceptr freed, flag;
    CUgraph graph;
    volatile uint32_t *host;
    place = primary_place(0);
    host = host_flag(&flag);
    stream = new_stream(CU_STREAM_NON_BLOCKING);
    captured = new_stream(CU_STREAM_NON_BLOCKING);
    freed = allocate(BYTES);
    fill(&place, freed, 3, stream);
    release(freed);
    CHECK(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    fill(&place, place.kept, 7, captured);
    if (beside)
        wait_for_flag(&place, flag, stream);
    CHECK(cuStreamEndCapture(captured, &graph));
    CHECK(cuGraphDestroy(graph));
    if (!beside)
        wait_for_flag(&place, flag, stream);
    for (int i = 0; i < 3; i++)
        (void)allocate(BYTES);
    set_flag(host);
    CHECK(cuCtxSynchronize());
    printf("the allocations did not wait\n");
}

static void behind_a_capture(void) {
    with_capture(false);
}

static void beside_a_capture(void) {
    with_capture(true);
}

/* A thread that submits later work just as the first one does, whose own fences the free. */
struct beside {
    pthread_barrier_t together;
    CUdeviceptr flag;
    CUstream stream;
    int rounds;
};

static void *submit_beside(void *data) {
    struct beside *beside = data;
    CHECK(cuCtxSetCurrent(place.context));
    for (int i = 0; i < beside->rounds; i++) {
        pthread_barrier_wait(&beside->together);
        wait_for_flag(&place, beside->flag, beside->stream);
        pthread_barrier_wait(&beside->together);
        CHECK(cuStreamSynchronize(beside->stream));
        pthread_barrier_wait(&beside->together);
    }
    return NULL;
}

static void of_another_thread(void) {
    struct beside beside = {.rounds = 100};
    volatile uint32_t *host;
    pthread_t thread;
    place = primary_place(0);
    host = host_flag(&beside.flag);
    beside.stream = new_stream(CU_STREAM_NON_BLOCKING);
    pthread_barrier_init(&beside.together, NULL, 2);
    pthread_create(&thread, NULL, submit_beside, &beside);
    for (int i = 0; i < beside.rounds; i++) {
        CUdeviceptr block = allocate(BYTES);
        fill(&place, block, 3, NULL);
        release(block);
        pthread_barrier_wait(&beside.together);
        fill(&place, place.kept, 3, NULL);
        pthread_barrier_wait(&beside.together);
        block = allocate(BYTES);
        set_flag(host);
        pthread_barrier_wait(&beside.together);
        *host = 0;
        release(block);
    }
    pthread_join(thread, NULL);
    CHECK(cuCtxSynchronize());
    printf("the allocations did not wait\n");
}

/* A thread that frees behind the work, which the free natively waits for: the allocations of the
 * thread that will set the flag do not. */
struct freeing {
    pthread_barrier_t ready;
    CUdeviceptr block;
    bool freed_before; /* so that it has a cache of its own */
    atomic_bool frees;
};

static void *free_behind(void *data) {
    struct freeing *freeing = data;
    CHECK(cuCtxSetCurrent(place.context));
    for (int i = 0; i < 10 && freeing->freed_before; i++)
        release(allocate(BYTES));
    if (freeing->freed_before)
        freeing->block = allocate(BYTES);
    pthread_barrier_wait(&freeing->ready);
    pthread_barrier_wait(&freeing->ready);
    atomic_store(&freeing->frees, true);
    release(freeing->block);
    return NULL;
}

static void with_thread_that_frees(bool freed_before, bool in_stream) {
    struct freeing freeing = {.freed_before = freed_before};
    CUdeviceptr flag;
    volatile uint32_t *host;
    CUstream stream = NULL;
    pthread_t thread;
    place = primary_place(0);
    host = host_flag(&flag);
    if (in_stream)
        stream = new_stream(CU_STREAM_NON_BLOCKING);
    if (!freed_before)
        freeing.block = allocate(BYTES);
    pthread_barrier_init(&freeing.ready, NULL, 2);
    pthread_create(&thread, NULL, free_behind, &freeing);
    pthread_barrier_wait(&freeing.ready);
    wait_for_flag(&place, flag, stream);
    pthread_barrier_wait(&freeing.ready);
    while (!atomic_load(&freeing.frees))
        sched_yield();
    usleep(20000); /* the free may be over by now, which only makes the case stricter */
    for (int i = 0; i < 3; i++)
        (void)allocate(BYTES);
    set_flag(host);
    pthread_join(thread, NULL);
    CHECK(cuCtxSynchronize());
    printf("the allocations did not wait\n");
}

static void freed_by_another_thread(void) {
    with_thread_that_frees(false, true);
}

static void freed_often_by_another_thread(void) {
    with_thread_that_frees(true, true);
}

static void freed_by_another_thread_without_streams(void) {
    with_thread_that_frees(false, false);
}

static void freed_often_by_another_thread_without_streams(void) {
    with_thread_that_frees(true, false);
}

/* No device has as much, and none needs to be waited for to say so. */
static void more_than_there_is(void) {
    CUdeviceptr flag, block;
    volatile uint32_t *host;
    place = primary_place(0);
    host = host_flag(&flag);
    wait_for_flag(&place, flag, NULL);
    REQUIRE(cuMemAlloc_v2(&block, (size_t)1 << 45) == CUDA_ERROR_OUT_OF_MEMORY);
    set_flag(host);
    CHECK(cuCtxSynchronize());
    printf("the allocations did not wait\n");
}

/* The device would have as much, but for the program's own live memory. */
static void more_than_is_left(void) {
    CUdeviceptr flag, block;
    size_t left, total;
    volatile uint32_t *host;
    place = primary_place(0);
    host = host_flag(&flag);
    CHECK(cuMemGetInfo_v2(&left, &total));
    (void)allocate(total / 10 * 9);
    wait_for_flag(&place, flag, NULL);
    REQUIRE(cuMemAlloc_v2(&block, total / 4) == CUDA_ERROR_OUT_OF_MEMORY);
    (void)allocate(BYTES); /* what is there can be had */
    set_flag(host);
    CHECK(cuCtxSynchronize());
    printf("the allocations did not wait\n");
}

enum { PAGE = 2 << 20 };

/* What the pool knew to be there has gone past it: it is the program's own physical memory. */
static void more_than_mappings_leave(void) {
    const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle physical;
    CUdeviceptr flag, block;
    size_t left, total;
    volatile uint32_t *host;
    place = primary_place(0);
    host = host_flag(&flag);
    CHECK(cuMemGetInfo_v2(&left, &total));
    CHECK(cuMemCreate(&physical, total / 10 * 9 / PAGE * PAGE, &on_device, 0));
    wait_for_flag(&place, flag, NULL);
    REQUIRE(cuMemAlloc_v2(&block, total / 4) == CUDA_ERROR_OUT_OF_MEMORY);
    set_flag(host);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemRelease(physical));
    printf("the allocations did not wait\n");
}

/* What was freed is pitched memory, which comes in another way than the rest. */
static void pitched(void) {
    CUdeviceptr flag, block;
    size_t pitch;
    volatile uint32_t *host;
    place = primary_place(0);
    host = host_flag(&flag);
    CHECK(cuMemAllocPitch_v2(&block, &pitch, BYTES, 16, 4));
    fill(&place, block, 3, NULL);
    CHECK(cuMemFree_v2(block));
    CHECK(cuCtxSynchronize());
    wait_for_flag(&place, flag, NULL);
    (void)allocate(BYTES);
    (void)allocate(BYTES);
    set_flag(host);
    CHECK(cuCtxSynchronize());
    printf("the allocations did not wait\n");
}

static const struct order_case cases[] = {
    {"non_blocking", non_blocking},
    {"non_blocking_user", non_blocking_user},
    {"blocking", blocking},
    {"legacy", legacy},
    {"full_device", full_device},
    {"behind_a_capture", behind_a_capture},
    {"beside_a_capture", beside_a_capture},
    {"of_another_thread", of_another_thread},
    {"freed_by_another_thread", freed_by_another_thread},
    {"freed_often_by_another_thread", freed_often_by_another_thread},
    {"freed_by_another_thread_without_streams", freed_by_another_thread_without_streams},
    {"freed_often_by_another_thread_without_streams",
     freed_often_by_another_thread_without_streams},
    {"more_than_there_is", more_than_there_is},
    {"more_than_is_left", more_than_is_left},
    {"more_than_mappings_leave", more_than_mappings_leave},
    {"pitched", pitched},
};

ORDER_MAIN(cases)
