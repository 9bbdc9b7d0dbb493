/* Many threads do what threads do with memory, streams, events and captures, for a number of
 * seconds: stress THREADS SECONDS Every thread checks the data of its own blocks. Prints what went
 * wrong: nothing. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { SLOTS = 6, WORDS = 64, MAX_THREADS = 256 };

static CUcontext context;
static CUfunction fill, spin;
static time_t end;
static atomic_int wrong;

/* Not REQUIRE: the first failure of many threads would hide the others'. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int check_result = (int)(call);                                                            \
        if (check_result != 0) {                                                                   \
            if (atomic_fetch_add(&wrong, 1) < 10)                                                  \
                printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, check_result);                \
        }                                                                                          \
    } while (0)

struct block {
    CUdeviceptr pointer;
    uint32_t value;
};

struct worker {
    uint32_t random;
    CUstream stream;
    struct block blocks[SLOTS];
};

static uint32_t next_random(struct worker *worker) {
    worker->random = worker->random * 1664525u + 1013904223u;
    return worker->random >> 8;
}

static void owner(const char *name, CUdeviceptr pointer, size_t size) {
    void (*begin)(CUdeviceptr, size_t, uintptr_t);
    void (*finish)(CUdeviceptr, uintptr_t);
    void *found = dlsym(RTLD_DEFAULT, name);
    *(void **)&begin = found;
    *(void **)&finish = found;
    if (found && size)
        begin(pointer, size, 0);
    else if (found)
        finish(pointer, 0);
}

static void launch_fill(const struct worker *worker, CUdeviceptr to, uint32_t value) {
    uint64_t count = WORDS;
    CHECK(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, worker->stream,
                         (void *[]){&to, &count, &value}, NULL));
}

static void allocate(struct worker *worker, struct block *block) {
    size_t size = WORDS * 4 + next_random(worker) % (next_random(worker) % 8 ? 20000 : 3 << 20);
    CUdeviceptr pointer = 0;
    CUresult result = cuMemAlloc_v2(&pointer, size);
    if (result != CUDA_SUCCESS) { /* many threads may want more than there is */
        CHECK(result == CUDA_ERROR_OUT_OF_MEMORY ? 0 : result);
        return;
    }
    owner("simcuda_owner_begin", pointer, size);
    block->pointer = pointer;
    block->value = next_random(worker);
    launch_fill(worker, pointer, block->value);
}

static void verify(const struct worker *worker, const struct block *block) {
    uint32_t words[WORDS] = {0};
    CHECK(cuStreamSynchronize(worker->stream));
    CHECK(cuMemcpyDtoH_v2(words, block->pointer, sizeof words));
    for (int i = 0; i < WORDS; i++)
        CHECK(words[i] == block->value ? 0 : 1);
}

static void release(struct worker *worker, struct block *block) {
    launch_fill(worker, block->pointer, 0); /* under way at the free */
    owner("simcuda_owner_end", block->pointer, 0);
    CHECK(cuMemFree_v2(block->pointer));
    block->pointer = 0;
}

static void change_stream(struct worker *worker) {
    static const CUstream standing[] = {NULL, CU_STREAM_PER_THREAD};
    CHECK(cuStreamSynchronize(worker->stream));
    if (worker->stream != standing[0] && worker->stream != standing[1])
        CHECK(cuStreamDestroy_v2(worker->stream));
    uint32_t which = next_random(worker) % 4;
    worker->stream = which < 2 ? standing[which] : NULL;
    if (which >= 2)
        CHECK(cuStreamCreate(&worker->stream,
                             which == 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
}

static void use_event(struct worker *worker) {
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventRecord(event, worker->stream));
    CHECK(cuEventSynchronize(event));
    CHECK(cuEventQuery(event));
    CHECK(cuEventDestroy_v2(event));
}

/* Of this thread alone: the others may go on as they like. */
static void capture(struct worker *worker, const struct block *block) {
    CUstream stream;
    CUgraph graph = NULL;
    CUgraphExec executable;
    uint64_t count = WORDS;
    uint32_t value = block->value;
    CUdeviceptr to = block->pointer;
    CHECK(cuStreamSynchronize(worker->stream));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    CHECK(
        cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, (void *[]){&to, &count, &value}, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    if (graph) {
        CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
        CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(cuGraphExecDestroy(executable));
        CHECK(cuGraphDestroy(graph));
    }
    CHECK(cuStreamDestroy_v2(stream));
}

static void step(struct worker *worker) {
    struct block *block = &worker->blocks[next_random(worker) % SLOTS];
    uint32_t what = next_random(worker) % 64;
    uint64_t busy = 20000;
    size_t available, total;
    if (!block->pointer)
        allocate(worker, block);
    else if (what == 0)
        capture(worker, block);
    else if (what < 24)
        verify(worker, block);
    else if (what < 56)
        release(worker, block);
    else if (what < 58)
        use_event(worker);
    else if (what < 60)
        change_stream(worker);
    else if (what < 62)
        CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, worker->stream, (void *[]){&busy}, NULL));
    else
        CHECK(cuMemGetInfo_v2(&available, &total));
}

static void *work(void *data) {
    struct worker worker = {.random = (uint32_t)(uintptr_t)data * 2654435761u};
    CHECK(cuCtxSetCurrent(context));
    while (time(NULL) < end)
        for (int i = 0; i < 16; i++)
            step(&worker);
    for (int i = 0; i < SLOTS; i++)
        if (worker.blocks[i].pointer)
            release(&worker, &worker.blocks[i]);
    CHECK(cuStreamSynchronize(worker.stream));
    return NULL;
}

int main(int argc, char **argv) {
    static pthread_t threads[MAX_THREADS];
    CUmodule module;
    REQUIRE(argc == 3 && atoi(argv[1]) <= MAX_THREADS);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    CHECK(cuModuleGetFunction(&spin, module, "spin_ns"));
    end = time(NULL) + atoi(argv[2]);
    for (int i = 0; i < atoi(argv[1]); i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)) == 0);
    for (int i = 0; i < atoi(argv[1]); i++)
        pthread_join(threads[i], NULL);
    CHECK(cuCtxSynchronize());
    printf("wrong %d\n", atomic_load(&wrong));
    return 0;
}
