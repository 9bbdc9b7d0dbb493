/* Two contexts, a thread for each. The first context's thread frees behind a kernel that runs until
 * the other thread sets a flag. Natively the free waits, and the other thread, which works in its
 * own context, does not. */
#include "order.h"

static struct place first, second;
static CUdeviceptr flag, freed, own;
static bool free_is_over;
static pthread_barrier_t both_are_there;

static void free_behind_kernel(void) {
    CHECK(cuCtxSetCurrent(first.context));
    wait_for_flag(&first, flag, NULL);
    release(freed);
    __atomic_store_n(&free_is_over, true, __ATOMIC_RELEASE);
}

static void await_free(void) {
    while (waiting_threads() == 0 && !__atomic_load_n(&free_is_over, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void synchronize(void) {
    fill(&second, own, 7, NULL);
    CHECK(cuStreamSynchronize(NULL));
}

static void copy(void) {
    uint32_t word = 7;
    CHECK(cuMemcpyHtoD_v2(own, &word, sizeof word));
    CHECK(cuMemcpyDtoH_v2(&word, own, sizeof word));
    REQUIRE(word == 7);
}

static void free_too(void) {
    CUdeviceptr block = allocate(BYTES);
    fill(&second, block, 7, NULL);
    release(block);
}

static void set_in_the_first(void) {
    CHECK(cuCtxSetCurrent(first.context));
    set_device_flag(flag);
}

static void set_by_copy_between_contexts(void) {
    CHECK(cuMemsetD32_v2(own, 1, 1));
    CHECK(cuMemcpyPeer(flag, first.context, own, second.context, sizeof(uint32_t)));
}

static void set_from_the_second(void) {
    CHECK(cuMemsetD32_v2(flag, 1, 1));
}

/* What the second thread does while the free waits. */
static void (*works)(void), (*sets)(void);

static void *work_beside_the_free(void) {
    pthread_barrier_wait(&both_are_there);
    await_free();
    works();
    sets();
    return NULL;
}

static void *work_in_the_second(void *data) {
    (void)data;
    CHECK(cuCtxSetCurrent(second.context));
    return work_beside_the_free();
}

static void *push_and_work(void *data) {
    (void)data;
    CHECK(cuCtxPushCurrent_v2(second.context));
    return work_beside_the_free();
}

static void *free_in_the_first(void *data) {
    (void)data;
    pthread_barrier_wait(&both_are_there);
    free_behind_kernel();
    return NULL;
}

/* The second context is device 1's, or another one of device 0. */
static void start(bool of_one_device) {
    second = of_one_device ? (struct place){0} : primary_place(1);
    first = primary_place(0);
    flag = device_flag();
    freed = allocate(BYTES);
    if (of_one_device)
        second = created_place();
    CHECK(cuCtxSetCurrent(second.context));
    own = allocate(BYTES);
    CHECK(cuMemsetD32_v2(own, 0, 1));
    CHECK(cuCtxSynchronize());
    REQUIRE(pthread_barrier_init(&both_are_there, NULL, 2) == 0);
}

static void finish(pthread_t thread) {
    REQUIRE(pthread_join(thread, NULL) == 0);
    CHECK(cuCtxSetCurrent(first.context));
    CHECK(cuCtxSynchronize());
    printf("the free is over\n");
}

static void run_beside(bool of_one_device, void (*work)(void), void (*set)(void)) {
    pthread_t threads[2];
    works = work;
    sets = set;
    start(of_one_device);
    REQUIRE(pthread_create(&threads[0], NULL, free_in_the_first, NULL) == 0);
    REQUIRE(pthread_create(&threads[1], NULL, work_in_the_second, NULL) == 0);
    REQUIRE(pthread_join(threads[0], NULL) == 0);
    finish(threads[1]);
}

static void synchronizes_in_its_own(void) {
    run_beside(false, synchronize, set_in_the_first);
}

static void copies_in_its_own(void) {
    run_beside(false, copy, set_by_copy_between_contexts);
}

static void frees_in_its_own(void) {
    run_beside(false, free_too, set_in_the_first);
}

static void contexts_of_one_device(void) {
    run_beside(true, synchronize, set_from_the_second);
}

/* The thread that frees has allocated all memory, and the other one has only made its context
 * current. */
static void run_beside_main_thread(void *(*work)(void *)) {
    pthread_t thread;
    works = synchronize;
    sets = set_in_the_first;
    start(false);
    REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
    pthread_barrier_wait(&both_are_there);
    free_behind_kernel();
    finish(thread);
}

static void thread_that_never_allocates(void) {
    run_beside_main_thread(work_in_the_second);
}

static void thread_that_pushes_its_context(void) {
    run_beside_main_thread(push_and_work);
}

static const struct order_case cases[] = {
    {"synchronizes_in_its_own", synchronizes_in_its_own},
    {"copies_in_its_own", copies_in_its_own},
    {"frees_in_its_own", frees_in_its_own},
    {"contexts_of_one_device", contexts_of_one_device},
    {"thread_that_never_allocates", thread_that_never_allocates},
    {"thread_that_pushes_its_context", thread_that_pushes_its_context},
};

ORDER_MAIN(cases)
