#include "concurrent.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

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
    owner_begins(pointer, WORDS * 4);
    *wrong += cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS;
    for (int i = 0; i < ROUNDS * 4; i++)
        *wrong += capture_once(worker, pointer, stream);
    *wrong += cuStreamDestroy_v2(stream) != CUDA_SUCCESS;
    owner_ends(pointer);
    *wrong += cuMemFree_v2(pointer) != CUDA_SUCCESS;
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
