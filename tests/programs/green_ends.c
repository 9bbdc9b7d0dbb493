/* Green contexts are destroyed, which leaves their memory to the primary context, or ends that one
 * as well. One case a process, named by the argument; natively and under the pool the lines are the
 * same. */
#include "green.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define TELL(call)  printf("%s: %d\n", #call, (int)(call))
#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { BYTES = 70000, LARGE = 3000000 };

/* Of all that was allocated before in contexts that have ended. */
static size_t lost(void) {
    CUcontext context;
    CUdeviceptr block;
    size_t left, total;
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&block, 1)); /* what is freed in a later context is freed now */
    CHECK(cuCtxDestroy_v2(context));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemGetInfo_v2(&left, &total));
    CHECK(cuCtxDestroy_v2(context));
    return total - left;
}

/* Nothing else retains the primary context. */
static void last(void) {
    CUgreenCtx green;
    CUdeviceptr small, large, again;
    for (int i = 0; i < 3; i++) {
        CHECK(cuCtxSetCurrent(make_green(&green)));
        CHECK(cuMemAlloc_v2(&small, BYTES));
        CHECK(cuMemAlloc_v2(&large, LARGE));
        CHECK(cuMemAlloc_v2(&again, BYTES));
        CHECK(cuMemFree_v2(small));
        TELL(cuGreenCtxDestroy(green));
        CHECK(cuCtxSetCurrent(NULL));
        printf("%zu bytes are lost\n", lost());
    }
}

/* One thread destroys what is current for it. */
static void current(void) {
    CUcontext primary, owner;
    CUgreenCtx green;
    CUdeviceptr one, other, none;
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(make_green(&green)));
    CHECK(cuMemAlloc_v2(&one, BYTES));
    CHECK(cuMemAlloc_v2(&other, BYTES));
    CHECK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, one));
    printf("allocated in %s\n", owner == primary ? "the primary context" : "another");
    TELL(cuGreenCtxDestroy(green));
    TELL(cuMemFree_v2(one));
    TELL(cuMemAlloc_v2(&none, BYTES));
    CHECK(cuCtxSetCurrent(primary));
    TELL(cuMemsetD8_v2(one, 1, BYTES));
    TELL(cuMemFree_v2(one));
    TELL(cuMemFree_v2(other));
    TELL(cuMemFree_v2(other));
    TELL(cuDevicePrimaryCtxRelease_v2(0));
    printf("%zu bytes are lost\n", lost());
}

/* Where nothing can be allocated, or a stream is captured meanwhile, blocks are kept as well. */
static void hindered(bool full) {
    CUcontext primary, owner;
    CUgreenCtx green;
    CUgraph graph;
    CUstream stream;
    CUdeviceptr block, filling[64];
    size_t bytes, count = 0;
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(make_green(&green)));
    CHECK(cuMemAlloc_v2(&block, LARGE));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (bytes = (size_t)1 << 40; full && bytes >= 512; bytes /= 2)
        while (count < 64 && cuMemAlloc_v2(&filling[count], bytes) == CUDA_SUCCESS)
            count++;
    if (!full)
        CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    TELL(cuGreenCtxDestroy(green));
    if (!full)
        CHECK(cuStreamEndCapture(stream, &graph));
    TELL(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block));
    TELL(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, block));
    printf("%zu bytes of %s\n", bytes, owner == primary ? "the primary context" : "another");
    TELL(cuMemsetD8_v2(block, 1, LARGE));
    TELL(cuMemFree_v2(block));
    while (count)
        CHECK(cuMemFree_v2(filling[--count]));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    printf("%zu bytes are lost\n", lost());
}

static void captured(void) {
    hindered(false);
}

static void full(void) {
    hindered(true);
}

static atomic_bool destroyed;

static void wait_for_end(void *data) {
    (void)data;
    while (!destroyed)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

/* The primary context works until the green one has been destroyed. */
static void busy(void) {
    CUcontext primary;
    CUgreenCtx green;
    CUstream stream;
    CUdeviceptr block;
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(make_green(&green)));
    CHECK(cuMemAlloc_v2(&block, LARGE));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuLaunchHostFunc(stream, wait_for_end, NULL));
    TELL(cuGreenCtxDestroy(green));
    destroyed = true;
    TELL(cuMemFree_v2(block));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    printf("%zu bytes are lost\n", lost());
}

enum { ENDS = 30, THREADS = 4, BLOCKS = 16, PAUSE_NS = 1500000, START_NS = 4000 };

struct worker {
    CUcontext context;
    CUdeviceptr blocks[BLOCKS];
    unsigned count; /* of those that it still has */
    unsigned seed;
};

/* Returns what the driver has answered. */
static CUresult step(struct worker *worker) {
    CUresult result = CUDA_SUCCESS;
    worker->seed = worker->seed * 1103515245 + 12345;
    unsigned drawn = worker->seed >> 8;
    if (drawn % 2 && worker->count < BLOCKS) {
        result = cuMemAlloc_v2(&worker->blocks[worker->count], drawn % LARGE / 16 + 1);
        worker->count += result == CUDA_SUCCESS;
    } else if (worker->count) {
        result = cuMemFree_v2(worker->blocks[worker->count - 1]);
        worker->count -= result == CUDA_SUCCESS;
    }
    return result;
}

static void *work(void *data) {
    struct worker *worker = data;
    CUresult result = cuCtxSetCurrent(worker->context);
    while (result == CUDA_SUCCESS) {
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        result = step(worker);
    }
    REQUIRE(result == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return NULL;
}

/* Threads allocate and free in it. What they have then is the primary context's. */
static void beside(void) {
    CUcontext primary;
    CUgreenCtx green;
    unsigned refused = 0;
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    for (unsigned i = 0; i < ENDS; i++) {
        struct worker workers[THREADS];
        pthread_t threads[THREADS];
        CUcontext context = make_green(&green);
        for (unsigned j = 0; j < THREADS; j++) {
            workers[j] = (struct worker){.context = context, .seed = i * THREADS + j};
            REQUIRE(pthread_create(&threads[j], NULL, work, &workers[j]) == 0);
        }
        /* in the midst of their work, or as they begin it */
        nanosleep(&(struct timespec){.tv_nsec = i % 2 ? PAUSE_NS : i * START_NS}, NULL);
        CHECK(cuGreenCtxDestroy(green));
        for (unsigned j = 0; j < THREADS; j++) {
            REQUIRE(pthread_join(threads[j], NULL) == 0);
            while (workers[j].count)
                refused += cuMemFree_v2(workers[j].blocks[--workers[j].count]) != CUDA_SUCCESS;
        }
    }
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
    printf("%u frees were refused, %zu bytes are lost\n", refused, lost());
}

static void work_for_a_while(void *data) {
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000 * 1000}, NULL);
    atomic_store((atomic_bool *)data, true);
}

static void *destroy(void *green) {
    TELL(cuGreenCtxDestroy(green));
    return NULL;
}

/* A block of the primary context is freed in another one, while a thread destroys a green one that
 * works: the free waits for that work. */
static void elsewhere(void) {
    static atomic_bool done;
    CUcontext primary, other;
    CUgreenCtx green;
    CUstream stream;
    CUdeviceptr block;
    pthread_t thread;
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuMemAlloc_v2(&block, BYTES)); /* so that it is no unknown context */
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuMemAlloc_v2(&block, BYTES));
    CHECK(cuCtxSetCurrent(make_green(&green)));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuLaunchHostFunc(stream, work_for_a_while, &done));
    REQUIRE(pthread_create(&thread, NULL, destroy, green) == 0);
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    CHECK(cuCtxSetCurrent(other));
    CUresult result = cuMemFree_v2(block);
    bool waited = done;
    pthread_join(thread, NULL);
    printf("free: %d, the work was %s\n", (int)result, waited ? "over" : "under way");
    CHECK(cuCtxDestroy_v2(other));
    CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"last", last}, {"current", current}, {"beside", beside},       {"captured", captured},
    {"full", full}, {"busy", busy},       {"elsewhere", elsewhere},
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
