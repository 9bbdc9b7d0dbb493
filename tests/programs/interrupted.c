/* Scenarios in which some driver call fails once, for no reason of the program's (the simulated GPU
 * does that on demand): each call that reports it is made again, and everything must go on as if
 * nothing had happened. Prints what it computed and how many failures it got. All its
 * memory is freed in the end, and the pool's given back: the driver's report tells what is left. */
#include "driver/cuda_api.h"
#include "poolcuda.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { WORDS = 256, BYTES = WORDS * 4, LOOPS = 3 };

static int injected_error, told;
static CUfunction fill, spin;

/* A call that must succeed, at the second try if the first was made to fail. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        int try_result = (int)(call);                                                              \
        if (try_result != 0 && try_result == injected_error) {                                     \
            told++;                                                                                \
            try_result = (int)(call);                                                              \
        }                                                                                          \
        if (try_result != 0) {                                                                     \
            printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, try_result);                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void load(void) {
    CUmodule module;
    TRY(cuModuleLoadData(&module, sample_kernels_ptx));
    TRY(cuModuleGetFunction(&fill, module, "fill_u32"));
    TRY(cuModuleGetFunction(&spin, module, "spin_ns"));
}

static void launch(CUfunction function, void **arguments, CUstream stream) {
    TRY(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
}

static void fill_words(CUdeviceptr to, uint32_t value, CUstream stream) {
    uint64_t count = WORDS;
    launch(fill, (void *[]){&to, &count, &value}, stream);
}

/* Three blocks, filled, read back and freed while work on one is under way. */
static void work(CUstream stream, size_t size) {
    CUdeviceptr blocks[3];
    uint32_t words[WORDS] = {0}, sum = 0;
    uint64_t busy = 20000;
    for (int i = 0; i < 3; i++) {
        TRY(cuMemAlloc_v2(&blocks[i], size));
        fill_words(blocks[i], (uint32_t)(i + 5), stream);
    }
    TRY(cuStreamSynchronize(stream));
    for (int i = 0; i < 3; i++) {
        TRY(cuMemcpyDtoH_v2(words, blocks[i], BYTES));
        for (int w = 0; w < WORDS; w++)
            sum += words[w];
    }
    launch(spin, (void *[]){&busy}, stream);
    fill_words(blocks[0], 99, stream);
    for (int i = 0; i < 3; i++)
        TRY(cuMemFree_v2(blocks[i]));
    printf("sum %u\n", sum);
}

static void one_stream(void) {
    CUdeviceptr kept;
    TRY(cuMemAlloc_v2(&kept, 1 << 20));
    for (int i = 0; i < LOOPS; i++)
        work(NULL, (size_t)BYTES << i);
    TRY(cuMemFree_v2(kept));
}

static void free_stream(void) {
    CUstream stream;
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < LOOPS; i++)
        work(stream, 3 << 20);
    TRY(cuStreamDestroy_v2(stream));
    work(NULL, 3 << 20);
}

/* What is freed has work behind it that takes long, in a stream that ends. */
static void ended_stream(void) {
    for (int i = 0; i < LOOPS; i++) {
        CUstream stream;
        CUdeviceptr block;
        uint32_t word = 0;
        uint64_t busy = 10000000;
        TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        TRY(cuMemAlloc_v2(&block, 3 << 20));
        launch(spin, (void *[]){&busy}, stream);
        fill_words(block, 99, stream);
        TRY(cuMemFree_v2(block));
        TRY(cuStreamDestroy_v2(stream));
        TRY(cuMemAlloc_v2(&block, 3 << 20));
        fill_words(block, 5, NULL);
        TRY(cuCtxSynchronize());
        TRY(cuMemcpyDtoH_v2(&word, block, sizeof word));
        TRY(cuMemFree_v2(block));
        printf("word %u\n", word);
    }
}

static void two_contexts(void) {
    CUcontext first, second;
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    TRY(cuCtxGetCurrent(&first));
    TRY(create(&second, 0, 0));
    CUfunction first_fill = fill, first_spin = spin;
    load();
    for (int i = 0; i < LOOPS; i++)
        work(NULL, 70000);
    TRY(cuCtxSetCurrent(first));
    fill = first_fill;
    spin = first_spin;
    work(NULL, 70000);
    TRY(cuCtxDestroy_v2(second));
    work(NULL, 70000);
}

/* Each size takes most of the device, so that the one before has to go. */
static void little_memory(void) {
    for (size_t size = 60 << 20; size <= 70 << 20; size += 5 << 20)
        work(NULL, size);
}

static void pitched(void) {
    for (int i = 0; i < LOOPS; i++) {
        CUdeviceptr pointer;
        size_t pitch = 0;
        TRY(cuMemAllocPitch_v2(&pointer, &pitch, 1000, 50, 4));
        fill_words(pointer, 3, NULL);
        TRY(cuMemFree_v2(pointer));
        printf("pitch %zu\n", pitch);
    }
}

static void captured(void) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr block;
    TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    work(NULL, 5000);
    TRY(cuMemAlloc_v2(&block, 5000));
    TRY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill_words(block, 4, stream);
    work(NULL, 5000);
    TRY(cuStreamEndCapture(stream, &graph));
    TRY(cuGraphInstantiateWithFlags(&executable, graph, 0));
    TRY(cuGraphLaunch(executable, stream));
    TRY(cuStreamSynchronize(stream));
    TRY(cuMemFree_v2(block));
    work(NULL, 5000);
}

static void reset(void) {
    CUcontext context;
    work(NULL, 5000);
    TRY(cuDevicePrimaryCtxReset(0));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    load();
    work(NULL, 5000);
    TRY(cuDevicePrimaryCtxRelease(0));
    work(NULL, 5000);
}

static void asked(void) {
    for (int i = 0; i < LOOPS; i++) {
        CUdeviceptr block, base;
        CUipcMemHandle handle;
        size_t size = 0, available = 0, total = 0;
        TRY(cuMemAlloc_v2(&block, 5000));
        TRY(cuMemGetAddressRange_v2(&base, &size, block + 100));
        TRY(cuMemGetInfo_v2(&available, &total));
        if (i == 1)
            TRY(cuIpcGetMemHandle(&handle, block));
        printf("size %zu of %zu\n", size, total);
        if (i == 2)
            TRY(cuMemFreeAsync(block, NULL));
        else
            TRY(cuMemFree_v2(block));
    }
    TRY(cuCtxSynchronize());
}

static CUcontext shared;
static void *work_in_thread(void *data) {
    TRY(cuCtxSetCurrent(shared));
    work(CU_STREAM_PER_THREAD, (size_t)(uintptr_t)data);
    return NULL;
}

static void threads(void) {
    pthread_t workers[2];
    TRY(cuCtxGetCurrent(&shared));
    for (uintptr_t i = 0; i < 2; i++)
        REQUIRE(pthread_create(&workers[i], NULL, work_in_thread, (void *)(8000 + i)) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i], NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {
    {"one_stream", one_stream},
    {"free_stream", free_stream},
    {"ended_stream", ended_stream},
    {"two_contexts", two_contexts},
    {"little_memory", little_memory},
    {"pitched", pitched},
    {"captured", captured},
    {"reset", reset},
    {"asked", asked},
    {"threads", threads},
};

int main(int argc, char **argv) {
    CUcontext context;
    size_t (*trim)(int, size_t);
    REQUIRE(argc == 3);
    injected_error = atoi(argv[2]);
    *(void **)&trim = dlsym(RTLD_DEFAULT, "poolcuda_trim");
    TRY(cuInit(0));
    TRY(cuDevicePrimaryCtxRetain(&context, 0));
    TRY(cuCtxSetCurrent(context));
    load();
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(scenarios[i].name, argv[1]) == 0)
            scenarios[i].run();
    TRY(cuCtxSynchronize());
    if (trim) /* twice: the failure may have been this one's */
        for (int i = 0; i < 2; i++)
            trim(0, SIZE_MAX);
    fprintf(stderr, "told %d\n", told);
    return 0;
}
