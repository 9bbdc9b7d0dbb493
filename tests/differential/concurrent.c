#include "concurrent.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 64, ROUNDS = 12 };

void owner_begins(CUdeviceptr pointer, size_t size) {
    void (*begin)(CUdeviceptr, size_t, uintptr_t);
    *(void **)&begin = dlsym(RTLD_DEFAULT, "simcuda_owner_begin");
    if (begin)
        begin(pointer, size, (uintptr_t)__builtin_return_address(0));
}

void owner_ends(CUdeviceptr pointer) {
    void (*end)(CUdeviceptr, uintptr_t);
    *(void **)&end = dlsym(RTLD_DEFAULT, "simcuda_owner_end");
    if (end)
        end(pointer, (uintptr_t)__builtin_return_address(0));
}

unsigned association(CUdeviceptr pointer) {
    unsigned (*ask)(CUdeviceptr);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "simcuda_association");
    return ask ? ask(pointer) : 0;
}

unsigned long long hazards(void) {
    uint64_t (*count)(void);
    *(void **)&count = dlsym(RTLD_DEFAULT, "simcuda_hazards");
    return count ? count() : 0;
}

size_t device_available(void) {
    size_t (*ask)(void);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "simcuda_available");
    return ask ? ask() : SIZE_MAX;
}

void store_flag(uint32_t *flag) {
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static unsigned long long ask_time(const char *name) {
    uint64_t (*ask)(void);
    *(void **)&ask = dlsym(RTLD_DEFAULT, name);
    return ask ? ask() : 0;
}

unsigned long long host_time(void) {
    return ask_time("simcuda_host_ns");
}

unsigned long long host_time_of_calls(void) {
    return ask_time("simcuda_host_calls_ns");
}

void work_by_host(uint64_t ns) {
    void (*work)(uint64_t);
    *(void **)&work = dlsym(RTLD_DEFAULT, "simcuda_host_works");
    if (work)
        work(ns);
}

struct worker {
    struct concurrent *concurrent;
    int number;
    CUstreamCaptureMode mode;
    atomic_bool *done;
};

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static CUresult fill(const struct concurrent *concurrent, CUdeviceptr to, uint32_t value,
                     CUstream stream) {
    uint64_t count = WORDS;
    return cuLaunchKernel(concurrent->fill, 1, 1, 1, 32, 1, 1, 0, stream,
                          (void *[]){&to, &count, &value}, NULL);
}

/* Returns how much of it went wrong. */
static int work_once(const struct concurrent *concurrent, size_t size, uint32_t value,
                     CUstream stream) {
    uint32_t words[WORDS] = {0};
    CUdeviceptr pointer;
    if (cuMemAlloc_v2(&pointer, size) != CUDA_SUCCESS)
        return 1;
    owner_begins(pointer, size);
    int wrong = fill(concurrent, pointer, value, stream) != CUDA_SUCCESS;
    wrong += cuStreamSynchronize(stream) != CUDA_SUCCESS;
    wrong += cuMemcpyDtoH_v2(words, pointer, sizeof words) != CUDA_SUCCESS;
    for (int i = 0; i < WORDS; i++)
        wrong += words[i] != value;
    wrong += fill(concurrent, pointer, ~value, stream) != CUDA_SUCCESS; /* under way at the free */
    owner_ends(pointer);
    return wrong + (cuMemFree_v2(pointer) != CUDA_SUCCESS);
}

static void *work(void *data) {
    struct worker *worker = data;
    struct concurrent *concurrent = worker->concurrent;
    uint32_t state = concurrent->seed + (uint32_t)worker->number * 77777u;
    CUstream stream = worker->number == 0 ? NULL : CU_STREAM_PER_THREAD;
    int *wrong = &concurrent->wrong[worker->number];
    *wrong += cuCtxSetCurrent(concurrent->context) != CUDA_SUCCESS;
    if (worker->number > 1)
        *wrong += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
    for (int i = 0; i < ROUNDS; i++)
        *wrong += work_once(concurrent, WORDS * 4 + next_random(&state) % (4 << 20),
                            next_random(&state), stream);
    if (worker->number > 1)
        *wrong += cuStreamDestroy_v2(stream) != CUDA_SUCCESS;
    return NULL;
}

void concurrent_run(struct concurrent *concurrent, int threads) {
    pthread_t handles[CONCURRENT_MAX];
    struct worker workers[CONCURRENT_MAX];
    for (int i = 0; i < threads; i++) {
        workers[i] = (struct worker){concurrent, i, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL};
        pthread_create(&handles[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(handles[i], NULL);
}

static int capture_once(const struct worker *worker, CUdeviceptr pointer, CUstream stream) {
    CUgraph graph = NULL;
    CUgraphExec executable;
    int wrong = cuStreamBeginCapture_v2(stream, worker->mode) != CUDA_SUCCESS;
    for (int i = 0; i < 4; i++)
        wrong += fill(worker->concurrent, pointer, (uint32_t)i, stream) != CUDA_SUCCESS;
    wrong += cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS;
    if (!graph)
        return wrong + 1;
    if (cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS) {
        wrong += cuGraphLaunch(executable, stream) != CUDA_SUCCESS;
        wrong += cuStreamSynchronize(stream) != CUDA_SUCCESS;
        cuGraphExecDestroy(executable);
    }
    cuGraphDestroy(graph);
    return wrong;
}

static void *capture(void *data) {
    struct worker *worker = data;
    int *wrong = &worker->concurrent->wrong[0];
    CUdeviceptr pointer = 0;
    CUstream stream;
    *wrong += cuCtxSetCurrent(worker->concurrent->context) != CUDA_SUCCESS;
    *wrong += cuMemAlloc_v2(&pointer, WORDS * 4) != CUDA_SUCCESS;
    if (pointer) {
        owner_begins(pointer, WORDS * 4);
        *wrong += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
        for (int i = 0; i < ROUNDS * 4; i++)
            *wrong += capture_once(worker, pointer, stream);
        *wrong += cuStreamDestroy_v2(stream) != CUDA_SUCCESS;
        owner_ends(pointer);
        *wrong += cuMemFree_v2(pointer) != CUDA_SUCCESS;
    }
    atomic_store(worker->done, true);
    return NULL;
}

static int allocate_and_free(const struct concurrent *concurrent, size_t size, CUstream stream) {
    CUdeviceptr pointer, base;
    size_t range = 0;
    if (cuMemAlloc_v2(&pointer, size) != CUDA_SUCCESS)
        return 1;
    owner_begins(pointer, size);
    int wrong = cuMemGetAddressRange_v2(&base, &range, pointer) != CUDA_SUCCESS || range != size;
    wrong += fill(concurrent, pointer, (uint32_t)size, stream) != CUDA_SUCCESS;
    owner_ends(pointer);
    return wrong + (cuMemFree_v2(pointer) != CUDA_SUCCESS);
}

static void *free_beside(void *data) {
    struct worker *worker = data;
    struct concurrent *concurrent = worker->concurrent;
    uint32_t state = concurrent->seed + (uint32_t)worker->number;
    CUstream stream;
    int *wrong = &concurrent->wrong[worker->number];
    *wrong += cuCtxSetCurrent(concurrent->context) != CUDA_SUCCESS;
    *wrong += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
    while (!atomic_load(worker->done))
        *wrong +=
            allocate_and_free(concurrent, WORDS * 4 + next_random(&state) % (4 << 20), stream);
    *wrong += cuStreamDestroy_v2(stream) != CUDA_SUCCESS;
    return NULL;
}

void concurrent_capture(struct concurrent *concurrent, CUstreamCaptureMode mode) {
    enum { BESIDE = 2 };
    pthread_t handles[1 + BESIDE];
    struct worker workers[1 + BESIDE];
    atomic_bool done = false;
    for (int i = 0; i <= BESIDE; i++) {
        workers[i] = (struct worker){concurrent, i, mode, &done};
        pthread_create(&handles[i], NULL, i ? free_beside : capture, &workers[i]);
    }
    for (int i = 0; i <= BESIDE; i++)
        pthread_join(handles[i], NULL);
}

/* Two threads and the kernel between them. */
struct held {
    struct concurrent *concurrent;
    bool own_context;
    uint32_t *flag;
    CUdeviceptr device_flag;
    pthread_barrier_t barrier;
};

static void *hold(void *data) {
    struct held *held = data;
    int *wrong = &held->concurrent->wrong[0];
    CUstream stream;
    *wrong += cuCtxSetCurrent(held->concurrent->context) != CUDA_SUCCESS;
    *wrong += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
    *wrong += cuLaunchKernel(held->concurrent->wait_flag, 1, 1, 1, 1, 1, 1, 0, stream,
                             (void *[]){&held->device_flag}, NULL) != CUDA_SUCCESS;
    pthread_barrier_wait(&held->barrier);
    *wrong += cuStreamSynchronize(stream) != CUDA_SUCCESS;
    *wrong += cuStreamDestroy_v2(stream) != CUDA_SUCCESS;
    return NULL;
}

/* Work, and no free where it would wait for the other thread's kernel. Returns what went wrong. */
static int work_beside(struct held *held, CUdeviceptr *pointers, int count, CUstream stream) {
    struct concurrent *concurrent = held->concurrent;
    uint32_t state = concurrent->seed;
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        uint32_t words[WORDS] = {0};
        size_t size = WORDS * 4 + next_random(&state) % (1 << 20);
        if (cuMemAlloc_v2(&pointers[i], size) != CUDA_SUCCESS)
            return wrong + 1;
        owner_begins(pointers[i], size);
        wrong += cuMemsetD32Async(pointers[i], state, WORDS, stream) != CUDA_SUCCESS;
        wrong += cuMemcpyDtoHAsync_v2(words, pointers[i], sizeof words, stream) != CUDA_SUCCESS;
        wrong += cuStreamSynchronize(stream) != CUDA_SUCCESS;
        wrong += words[WORDS - 1] != state;
        wrong += cuMemsetD32Async(pointers[i], 1, WORDS, stream) != CUDA_SUCCESS;
        if (held->own_context && i % 2) {
            owner_ends(pointers[i]);
            wrong += cuMemFree_v2(pointers[i]) != CUDA_SUCCESS;
            pointers[i] = 0;
        }
    }
    return wrong;
}

static void *let_go(void *data) {
    enum { COUNT = 8 };
    struct held *held = data;
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    CUcontext context = held->concurrent->context;
    CUdeviceptr pointers[COUNT] = {0};
    CUstream stream;
    int *wrong = &held->concurrent->wrong[1];
    if (held->own_context)
        *wrong += create(&context, 0, held->concurrent->device) != CUDA_SUCCESS;
    *wrong += cuCtxSetCurrent(context) != CUDA_SUCCESS;
    *wrong += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
    pthread_barrier_wait(&held->barrier);
    *wrong += work_beside(held, pointers, COUNT, stream);
    store_flag(held->flag);
    for (int i = 0; i < COUNT; i++) {
        if (!pointers[i])
            continue;
        owner_ends(pointers[i]);
        *wrong += cuMemFree_v2(pointers[i]) != CUDA_SUCCESS;
    }
    *wrong += cuStreamDestroy_v2(stream) != CUDA_SUCCESS;
    if (held->own_context)
        *wrong += cuCtxDestroy_v2(context) != CUDA_SUCCESS;
    return NULL;
}

void concurrent_held(struct concurrent *concurrent, bool own_context) {
    struct held held = {.concurrent = concurrent, .own_context = own_context};
    pthread_t threads[2];
    void *memory;
    if (cuMemHostAlloc(&memory, sizeof(uint32_t),
                       CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE) != CUDA_SUCCESS ||
        cuMemHostGetDevicePointer_v2(&held.device_flag, memory, 0) != CUDA_SUCCESS)
        return;
    held.flag = memory;
    *held.flag = 0;
    pthread_barrier_init(&held.barrier, NULL, 2);
    pthread_create(&threads[0], NULL, hold, &held);
    pthread_create(&threads[1], NULL, let_go, &held);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    pthread_barrier_destroy(&held.barrier);
    concurrent->wrong[2] += cuMemFreeHost(memory) != CUDA_SUCCESS;
}

/* A program's GPU allocator under a lock, which it keeps whole across forks. */
static pthread_mutex_t allocator = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool fork_waits; /* a fork is about to take the lock, or has it */

static void lock_allocator(void) {
    atomic_store(&fork_waits, true);
    pthread_mutex_lock(&allocator);
}

static void unlock_allocator(void) {
    pthread_mutex_unlock(&allocator);
    atomic_store(&fork_waits, false);
}

/* Who takes a lock again as soon as it is free keeps others from it: a fork has its turn, else it
 * waits for seconds. */
static void *allocate_under_lock(void *data) {
    struct worker *worker = data;
    struct concurrent *concurrent = worker->concurrent;
    int *wrong = &concurrent->wrong[0];
    *wrong += cuCtxSetCurrent(concurrent->context) != CUDA_SUCCESS;
    for (uint32_t i = 0; !atomic_load(worker->done); i++) {
        while (atomic_load(&fork_waits))
            sched_yield();
        pthread_mutex_lock(&allocator);
        *wrong += work_once(concurrent, 4096u << (i % 4), i, NULL);
        pthread_mutex_unlock(&allocator);
    }
    return NULL;
}

void concurrent_register_fork_handlers(void) {
    pthread_atfork(lock_allocator, unlock_allocator, unlock_allocator);
}

void concurrent_forks(struct concurrent *concurrent) {
    atomic_bool done = false;
    struct worker worker = {.concurrent = concurrent, .done = &done};
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_under_lock, &worker);
    for (int i = 0; i < 4; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(7);
        waitpid(child, &status, 0);
        concurrent->wrong[1] += !WIFEXITED(status) || WEXITSTATUS(status) != 7;
    }
    atomic_store(&done, true);
    pthread_join(thread, NULL);
}
