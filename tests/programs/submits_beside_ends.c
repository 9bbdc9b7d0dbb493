/* Contexts that are destroyed while other threads work in them. With "live" a thread sets a block
 * of the context over and over; with "used" three allocate, set and free; with "twice" also two
 * threads destroy it; with "captured" a fourth one captures a stream again and again. Natively such
 * work is done or refused: it meets no memory that is gone. Prints how often it did, and what is
 * lost. */
#include "program.h"

#include "driver/cuda_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum {
    ENDS = 60,
    THREADS = 3,
    LAST_BLOCKS = 100,
    BLOCKS = 6,
    MOST = 100000,
    PAUSE_NS = 2 * 1000 * 1000
};

struct shared {
    CUcontext context;
    CUdeviceptr block; /* live */
};
static _Atomic(const struct shared *) now; /* NULL: there is none just now */
static atomic_bool is_over;
static atomic_int faults;

static bool note(CUresult result) {
    faults += result == CUDA_ERROR_ILLEGAL_ADDRESS;
    return result == CUDA_SUCCESS;
}

static void set_block(const struct shared *shared) {
    enum { BYTES = 1000 };
    while (note(cuMemsetD8Async(shared->block, 1, BYTES, NULL)))
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* the end waits for all of it */
}

static void use_blocks(unsigned *seed) {
    CUdeviceptr blocks[BLOCKS];
    int count = 0;
    for (int i = 0; i < BLOCKS; i++) {
        *seed = *seed * 1103515245 + 12345;
        size_t bytes = (*seed >> 8) % MOST + 1;
        if (note(cuMemAlloc_v2(&blocks[count], bytes)))
            note(cuMemsetD8Async(blocks[count++], 1, bytes, NULL));
    }
    for (int i = 0; i < count; i++)
        note(cuMemFree_v2(blocks[i]));
}

/* Until the context is gone. */
static void capture_streams(void) {
    CUstream stream;
    CUgraph graph;
    CUresult result;
    do {
        result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        if (result == CUDA_SUCCESS)
            result = cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
        nanosleep(&(struct timespec){.tv_nsec = 60000}, NULL);
        if (result == CUDA_SUCCESS)
            result = cuStreamEndCapture(stream, &graph);
        if (result == CUDA_SUCCESS)
            cuGraphDestroy(graph);
        if (result == CUDA_SUCCESS)
            result = cuStreamDestroy_v2(stream);
    } while (result == CUDA_SUCCESS);
}

struct worker {
    enum { SETS, ALLOCATES, CAPTURES } does;
    unsigned seed;
};

static void *work(void *data) {
    struct worker *worker = data;
    while (!atomic_load(&is_over)) {
        const struct shared *shared = atomic_load(&now);
        if (!shared || cuCtxSetCurrent(shared->context) != CUDA_SUCCESS)
            continue;
        if (worker->does == ALLOCATES)
            use_blocks(&worker->seed);
        else if (worker->does == CAPTURES)
            capture_streams();
        else
            set_block(shared);
    }
    return NULL;
}

static void *destroy(void *context) {
    CUresult result = cuCtxDestroy_v2(context);
    REQUIRE(result == CUDA_SUCCESS || result == CUDA_ERROR_CONTEXT_IS_DESTROYED);
    return NULL;
}

static void make_and_destroy(struct shared *shared, bool twice) {
    pthread_t other;
    CHECK(cuCtxCreate_v2(&shared->context, 0, 0));
    CHECK(cuMemAlloc_v2(&shared->block, MOST));
    atomic_store(&now, shared);
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    atomic_store(&now, NULL);
    if (twice)
        REQUIRE(pthread_create(&other, NULL, destroy, shared->context) == 0);
    destroy(shared->context);
    if (twice)
        REQUIRE(pthread_join(other, NULL) == 0);
}

int main(int argc, char **argv) {
    static struct shared contexts[ENDS]; /* a thread may look at an old one */
    REQUIRE(argc == 2);
    bool live = !strcmp(argv[1], "live"), twice = !strcmp(argv[1], "twice");
    bool captured = !strcmp(argv[1], "captured");
    unsigned count = live ? 1 : captured ? THREADS + 1 : THREADS;
    struct worker workers[THREADS + 1];
    pthread_t threads[THREADS + 1];
    CUcontext last;
    CUdeviceptr block;
    size_t left, total;
    CHECK(cuInit(0));
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){live ? SETS : i < THREADS ? ALLOCATES : CAPTURES, i};
        REQUIRE(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < ENDS; i++)
        make_and_destroy(&contexts[i], twice);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < count; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    CHECK(cuCtxCreate_v2(&last, 0, 0));
    CHECK(cuMemAlloc_v2(&block, 1)); /* what is freed in a later context is freed now */
    for (int i = 0; i < LAST_BLOCKS; i++) {
        CHECK(cuMemFree_v2(block));
        CHECK(cuMemAlloc_v2(&block, MOST));
    }
    CHECK(cuCtxDestroy_v2(last));
    CHECK(cuCtxCreate_v2(&last, 0, 0));
    CHECK(cuMemGetInfo_v2(&left, &total));
    printf("%d faults, %zu bytes are lost\n", atomic_load(&faults), total - left);
    return 0;
}
