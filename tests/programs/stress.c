/* Many threads do what threads do with memory, streams, events and captures:
 *
 *     stress THREADS STEPS STREAMS [ROUNDS [full]]
 *
 * Each thread makes that many steps, and that in ROUNDS rounds, with other threads each. STREAMS is
 * "any", or "legacy": then all work is in the legacy stream and in per-thread default streams,
 * which follow it, so that a free's wait can be put off. With "full" the threads first take all of
 * the device's memory together. Every thread checks the data of its own blocks; blocks change
 * hands. All memory is freed in the end, and the pool's given back. Prints what went wrong:
 * nothing. If anything does, and when a signal ends it, it tells the last steps of all threads on
 * standard error.
 */
#include "driver/cuda_api.h"
#include "poolcuda.h"
#include "program.h"

#include "stress_log.h"

#include "../../samples/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { SLOTS = 6, WORDS = 64, MAX_THREADS = 256, SHARED = 16 };

static CUcontext context;
static CUfunction fill, spin;
static int thread_count, step_count, round_number;
static bool legacy_only, begin_full;
static size_t full_size;
static pthread_barrier_t all_are_full;
static atomic_int wrong;
static size_t (*trim)(int, size_t); /* NULL natively */

/* Not REQUIRE: the first failure of many threads would hide the others'. */
#define CHECK(call)                                                                                \
    do {                                                                                           \
        int check_result = (int)(call);                                                            \
        if (check_result != 0) {                                                                   \
            int before = atomic_fetch_add(&wrong, 1);                                              \
            if (before < 10)                                                                       \
                printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, check_result);                \
            if (before == 0)                                                                       \
                log_tell();                                                                        \
        }                                                                                          \
    } while (0)

struct block {
    CUdeviceptr pointer;
    uint32_t value;
};

/* Through which blocks go to other threads. None of them has work under way. */
static struct block shared[SHARED];
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

struct worker {
    int number;
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

static void note(const struct worker *worker, const char *what, const struct block *block) {
    log_note(worker->number, what, block ? block->pointer : 0, block ? block->value : 0);
}

static void allocate_bytes(struct worker *worker, struct block *block, size_t size) {
    CUdeviceptr pointer = 0;
    log_note(worker->number, "allocate bytes", 0, size);
    CUresult result = cuMemAlloc_v2(&pointer, size);
    log_note(worker->number, "allocated, result", pointer, (uint64_t)result);
    if (result != CUDA_SUCCESS) { /* many threads may want more than there is */
        CHECK(result == CUDA_ERROR_OUT_OF_MEMORY ? 0 : result);
        return;
    }
    owner("simcuda_owner_begin", pointer, size);
    block->pointer = pointer;
    block->value = next_random(worker);
    launch_fill(worker, pointer, block->value);
    note(worker, "filled", block);
}

static void allocate(struct worker *worker, struct block *block) {
    size_t most = next_random(worker) % 8 ? 20000 : 3 << 20;
    allocate_bytes(worker, block, WORDS * 4 + next_random(worker) % most);
}

static void verify(const struct worker *worker, const struct block *block) {
    uint32_t words[WORDS] = {0};
    CHECK(cuStreamSynchronize(worker->stream));
    CHECK(cuMemcpyDtoH_v2(words, block->pointer, sizeof words));
    for (int i = 0; i < WORDS; i++) {
        if (words[i] != block->value)
            log_note(worker->number, "found in it", block->pointer + 4 * (unsigned)i, words[i]);
        CHECK(words[i] == block->value ? 0 : 1);
    }
}

static void release(struct worker *worker, struct block *block) {
    launch_fill(worker, block->pointer, 0); /* under way at the free */
    owner("simcuda_owner_end", block->pointer, 0);
    CHECK(cuMemFree_v2(block->pointer));
    block->pointer = 0;
}

static void hand_over(struct worker *worker, struct block *block) {
    struct block *place = &shared[next_random(worker) % SHARED], mine = *block;
    CHECK(cuStreamSynchronize(worker->stream));
    pthread_mutex_lock(&shared_lock);
    *block = *place;
    *place = mine;
    pthread_mutex_unlock(&shared_lock);
}

static void copy(const struct worker *worker, struct block *to, const struct block *from) {
    if (to == from || !from->pointer)
        return;
    CHECK(cuMemcpyDtoDAsync_v2(to->pointer, from->pointer, WORDS * 4, worker->stream));
    to->value = from->value;
}

static void set(struct worker *worker, struct block *block) {
    block->value = next_random(worker);
    CHECK(cuMemsetD32Async(block->pointer, block->value, WORDS, worker->stream));
}

static void leave_stream(struct worker *worker) {
    CHECK(cuStreamSynchronize(worker->stream));
    if (worker->stream && worker->stream != CU_STREAM_PER_THREAD)
        CHECK(cuStreamDestroy_v2(worker->stream));
    worker->stream = NULL;
}

static void change_stream(struct worker *worker) {
    uint32_t which = next_random(worker) % (legacy_only ? 2 : 4);
    leave_stream(worker);
    if (which == 1)
        worker->stream = CU_STREAM_PER_THREAD;
    else if (which > 1)
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

/* This thread's alone: the others may go on as they like. */
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

/* What a step does to a block that there is. */
static const char *step_name(uint32_t what) {
    return what == 0   ? "capture"
           : what < 16 ? "verify"
           : what < 46 ? "free"
           : what < 50 ? "copy to"
           : what < 54 ? "set"
           : what < 56 ? "hand over"
           : what < 58 ? "event"
           : what < 60 ? "change stream"
           : what < 62 ? "spin"
           : what < 63 ? "memory info"
                       : "trim";
}

static void step(struct worker *worker) {
    struct block *block = &worker->blocks[next_random(worker) % SLOTS];
    uint32_t what = next_random(worker) % 64;
    uint64_t busy = 20000;
    size_t available, total;
    if (!block->pointer) {
        allocate(worker, block);
        return;
    }
    note(worker, step_name(what), block);
    if (what == 0 && !legacy_only)
        capture(worker, block);
    else if (what < 16)
        verify(worker, block);
    else if (what < 46)
        release(worker, block);
    else if (what < 50)
        copy(worker, block, &worker->blocks[next_random(worker) % SLOTS]);
    else if (what < 54)
        set(worker, block);
    else if (what < 56)
        hand_over(worker, block);
    else if (what < 58)
        use_event(worker);
    else if (what < 60)
        change_stream(worker);
    else if (what < 62)
        CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, worker->stream, (void *[]){&busy}, NULL));
    else if (what == 62 || !trim)
        CHECK(cuMemGetInfo_v2(&available, &total));
    else
        trim(0, 1 << 20);
    note(worker, "done", block);
}

/* Together more than there is: the last of the threads are refused. */
static void take_all(struct worker *worker) {
    for (int i = 0; i < SLOTS; i++)
        allocate_bytes(worker, &worker->blocks[i], full_size);
    pthread_barrier_wait(&all_are_full);
}

static void *work(void *data) {
    int number = (int)(uintptr_t)data;
    struct worker worker = {
        .number = number, .random = (uint32_t)(number + MAX_THREADS * round_number) * 2654435761u};
    CHECK(cuCtxSetCurrent(context));
    if (begin_full)
        take_all(&worker);
    for (int i = 0; i < step_count; i++)
        step(&worker);
    for (int i = 0; i < SLOTS; i++)
        if (worker.blocks[i].pointer)
            release(&worker, &worker.blocks[i]);
    leave_stream(&worker);
    log_note(number, "ends", 0, 0);
    return NULL;
}

static void make_round(void) {
    static pthread_t threads[MAX_THREADS];
    struct worker last = {.random = 0};
    for (int i = 0; i < thread_count; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)) == 0);
    for (int i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SHARED; i++)
        if (shared[i].pointer) {
            verify(&last, &shared[i]);
            release(&last, &shared[i]);
        }
    CHECK(cuCtxSynchronize());
    if (trim)
        trim(0, SIZE_MAX);
}

int main(int argc, char **argv) {
    size_t available, total;
    CUmodule module;
    REQUIRE(argc >= 4 && argc <= 6 && atoi(argv[1]) > 0 && atoi(argv[1]) < MAX_THREADS);
    thread_count = atoi(argv[1]);
    step_count = atoi(argv[2]);
    legacy_only = strcmp(argv[3], "legacy") == 0;
    begin_full = argc == 6 && strcmp(argv[5], "full") == 0;
    *(void **)&trim = dlsym(RTLD_DEFAULT, "poolcuda_trim");
    log_begin();
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    CHECK(cuModuleGetFunction(&spin, module, "spin_ns"));
    CHECK(cuMemGetInfo_v2(&available, &total));
    full_size = 2 * total / ((size_t)thread_count * SLOTS);
    REQUIRE(pthread_barrier_init(&all_are_full, NULL, (unsigned)thread_count) == 0);
    int rounds = argc > 4 ? atoi(argv[4]) : 1;
    for (round_number = 0; round_number < rounds && !atomic_load(&wrong); round_number++) {
        log_note(0, "round", 0, (uint64_t)round_number);
        make_round();
    }
    printf("wrong %d\n", atomic_load(&wrong));
    return 0;
}
