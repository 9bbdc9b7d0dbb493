/* Frees that the driver refuses, and frees beside what other contexts and threads do. One case a
 * process, named by the argument; natively and under the pool the lines are the same. */
#include "green.h"

#include "../../samples/kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define TELL(call)  printf("%s: %d\n", #call, (int)(call))
#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { BYTES = 70000, MS = 1000 * 1000, BLOCKS = 50 };

static CUcontext primary;

static void enter_primary(void) {
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
}

static CUdeviceptr allocate(void) {
    CUdeviceptr block;
    CHECK(cuMemAlloc_v2(&block, BYTES));
    return block;
}

/* Each can be written to, and is another than all before. */
static void allocate_and_compare(void) {
    CUdeviceptr blocks[BLOCKS];
    unsigned twice = 0, refused = 0;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate();
        refused += cuMemsetD8_v2(blocks[i], 1, BYTES) != CUDA_SUCCESS;
        for (int j = 0; j < i; j++)
            twice += blocks[i] == blocks[j];
    }
    printf("%u addresses twice, %u refused\n", twice, refused);
}

static atomic_bool over;

static void work_for_a_while(void *data) {
    (void)data;
    nanosleep(&(struct timespec){.tv_nsec = 200 * MS}, NULL);
    over = true;
}

static void *destroy(void *green) {
    CHECK(cuGreenCtxDestroy(green));
    return NULL;
}

/* A thread has begun to destroy a green context that works. */
static pthread_t begin_to_destroy(void) {
    CUgreenCtx green;
    CUstream stream;
    pthread_t thread;
    CHECK(cuCtxSetCurrent(make_green(&green)));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuLaunchHostFunc(stream, work_for_a_while, NULL));
    REQUIRE(pthread_create(&thread, NULL, destroy, green) == 0);
    nanosleep(&(struct timespec){.tv_nsec = 50 * MS}, NULL);
    return thread;
}

static void second_beside_an_end(void) {
    enter_primary();
    CUdeviceptr block = allocate();
    allocate();
    CHECK(cuMemFree_v2(block));
    pthread_t thread = begin_to_destroy();
    CHECK(cuCtxSetCurrent(primary));
    TELL(cuMemFree_v2(block));
    printf("the end was %s\n", over ? "over" : "under way");
    pthread_join(thread, NULL);
    allocate_and_compare();
}

static atomic_bool stop;

static void *retain_and_release(void *data) {
    (void)data;
    CUcontext context;
    while (!stop) {
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
    }
    return NULL;
}

static void second_beside_releases(void) {
    pthread_t thread;
    unsigned freed = 0;
    enter_primary();
    allocate();
    REQUIRE(pthread_create(&thread, NULL, retain_and_release, NULL) == 0);
    for (int i = 0; i < 1500; i++) {
        CUdeviceptr block = allocate();
        CHECK(cuMemFree_v2(block));
        for (int j = 0; j < 20; j++)
            freed += cuMemFree_v2(block) == CUDA_SUCCESS;
    }
    printf("%u freed twice\n", freed);
    allocate_and_compare();
    stop = true;
    pthread_join(thread, NULL);
}

/* In a context where nothing was ever allocated. */
static void elsewhere_beside_an_end(void) {
    CUcontext other;
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    enter_primary();
    allocate();
    CUdeviceptr block = allocate();
    pthread_t thread = begin_to_destroy();
    CHECK(cuCtxSetCurrent(other));
    TELL(cuMemFree_v2(block));
    printf("the work was %s\n", over ? "over" : "under way");
    pthread_join(thread, NULL);
}

static atomic_bool given_up;

static void wait_for_the_free(void *data) {
    (void)data;
    for (int i = 0; i < 2000 && !over; i++)
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    given_up = !over;
}

/* Work of a context that has nothing to do with the block waits for its free. */
static void beside_unrelated_work(void) {
    CUcontext other;
    CUgreenCtx green;
    CUstream stream;
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    allocate();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    make_green(&green);
    CHECK(cuGreenCtxDestroy(green));
    enter_primary();
    CUdeviceptr block = allocate();
    allocate();
    CHECK(cuLaunchHostFunc(stream, wait_for_the_free, NULL));
    TELL(cuMemFree_v2(block));
    over = true;
    CHECK(cuStreamSynchronize(stream));
    printf("the free has %s\n", given_up ? "waited for that work" : "not waited");
}

static void launch_fault(CUstream stream) {
    CUmodule module;
    CUfunction fault;
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fault, module, "fault"));
    CHECK(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

static void lose_current_context(void) {
    launch_fault(NULL);
    TELL(cuCtxSynchronize());
}

static CUdeviceptr allocate_and_fill(void) {
    CUdeviceptr block = allocate();
    CHECK(cuMemsetD8_v2(block, 7, BYTES));
    return block;
}

static void tell_what_it_holds(CUdeviceptr block) {
    unsigned char held;
    CHECK(cuCtxSynchronize()); /* whatever works at the block */
    CHECK(cuMemcpyDtoH_v2(&held, block, 1));
    printf("it holds %u\n", (unsigned)held);
}

static void beside_a_lost_context(void) {
    CUcontext lost;
    enter_primary();
    CUdeviceptr healthy = allocate_and_fill();
    CHECK(cuCtxCreate_v2(&lost, 0, 0));
    CUdeviceptr block = allocate();
    lose_current_context();
    TELL(cuMemFree_v2(healthy));
    CHECK(cuCtxSetCurrent(primary));
    tell_what_it_holds(healthy);
    TELL(cuMemFree_v2(block));
    TELL(cuMemFree_v2(healthy));
}

/* A call tells of the loss while no context is current: that loses no other, and in the lost one
 * every later call tells it, too. */
static void after_a_loss_told_elsewhere(void) {
    CUcontext lost;
    CUevent event;
    CUdeviceptr block = 0;
    enter_primary();
    CUdeviceptr healthy = allocate();
    CHECK(cuCtxCreate_v2(&lost, 0, 0));
    CUdeviceptr of_lost = allocate();
    CHECK(cuMemFree_v2(allocate()));
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    launch_fault(NULL);
    CHECK(cuCtxSetCurrent(NULL));
    while (cuEventQuery(event) == CUDA_SUCCESS) /* nothing is recorded, but nothing is lost yet */
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    TELL(cuEventQuery(event));
    CHECK(cuCtxSetCurrent(lost));
    TELL(cuMemAlloc_v2(&block, BYTES));
    TELL(cuMemFree_v2(of_lost));
    CHECK(cuCtxSetCurrent(primary));
    TELL(cuMemFree_v2(healthy));
    TELL(cuMemFree_v2(healthy));
    allocate_and_compare();
}

/* Calls have told of another context's loss again and again. Then the one is lost in which a green
 * context works: no block that is idle there serves any more. */
static void below_a_green_context(void) {
    CUcontext other;
    CUgreenCtx green;
    CUevent event;
    CUstream stream;
    CUdeviceptr block = 0;
    enter_primary();
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    allocate();
    CHECK(cuEventCreate(&event, CU_EVENT_DEFAULT));
    launch_fault(NULL);
    while (cuEventQuery(event) == CUDA_SUCCESS) /* nothing is recorded, but nothing is lost yet */
        nanosleep(&(struct timespec){.tv_nsec = MS}, NULL);
    CHECK(cuCtxSetCurrent(make_green(&green)));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    allocate();
    CHECK(cuMemFree_v2(allocate()));
    for (int i = 0; i < 5; i++)
        REQUIRE(cuEventQuery(event) == CUDA_ERROR_ILLEGAL_ADDRESS);
    launch_fault(stream);
    TELL(cuStreamSynchronize(stream));
    TELL(cuMemAlloc_v2(&block, BYTES));
}

/* A call in it is refused, which says nothing of the primary context. */
static void after_a_destroyed_context(void) {
    CUgreenCtx green;
    enter_primary();
    CUdeviceptr block = allocate();
    CHECK(cuCtxSetCurrent(make_green(&green)));
    CUdeviceptr its = allocate();
    CHECK(cuGreenCtxDestroy(green));
    TELL(cuCtxSynchronize());
    CHECK(cuCtxSetCurrent(primary));
    TELL(cuMemFree_v2(block));
    TELL(cuMemFree_v2(its));
    allocate_and_compare();
}

/* It is refused, and the block holds what it held. */
static void without_a_context(void) {
    enter_primary();
    CUdeviceptr block = allocate_and_fill();
    CHECK(cuCtxSetCurrent(NULL));
    TELL(cuMemFree_v2(block));
    CHECK(cuCtxSetCurrent(primary));
    tell_what_it_holds(block);
    TELL(cuMemFree_v2(block));
}

/* Nothing can be freed there. */
static void in_a_destroyed_stream(void) {
    CUstream stream;
    enter_primary();
    CUdeviceptr block = allocate_and_fill();
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamDestroy_v2(stream));
    TELL(cuMemFreeAsync(block, stream));
    tell_what_it_holds(block);
    TELL(cuMemFree_v2(block));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"second_beside_an_end", second_beside_an_end},
    {"second_beside_releases", second_beside_releases},
    {"elsewhere_beside_an_end", elsewhere_beside_an_end},
    {"beside_unrelated_work", beside_unrelated_work},
    {"beside_a_lost_context", beside_a_lost_context},
    {"after_a_loss_told_elsewhere", after_a_loss_told_elsewhere},
    {"below_a_green_context", below_a_green_context},
    {"after_a_destroyed_context", after_a_destroyed_context},
    {"without_a_context", without_a_context},
    {"in_a_destroyed_stream", in_a_destroyed_stream},
};

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    CHECK(cuInit(0));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    REQUIRE(!"a case of that name");
}
