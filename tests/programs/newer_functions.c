/* Calls functions of a driver that is newer than anything: newer_functions ROUTE WHAT. They are
 * looked up by dlsym or by cuGetProcAddress, and whatever they do must be as without the pool.
 *
 *   stream     work in a stream that a newer form has made, then a free
 *   set        work submitted by a newer form whose arguments come in another order
 *   unknown    work submitted by an unknown function
 *   destroy    streams that a newer form destroys, with work in others
 *   prefetch   managed memory, by a newer form whose arguments come in another order
 *   v3, quiet, both, again
 *              another thread allocates and frees while a stream is being captured; the capture
 *              began by a newer form, an unknown function ("both": it ends by one, too), or
 *              cuStreamBeginRecaptureToGraph. Ends
 *              with 1000 allocations, which the pool serves again.
 *   forgotten, context, reset
 *              a capture ends by an unknown function, with its context, with the device's reset;
 * then 1000 allocations. */
#include "driver/cuda_api.h"
#include "program.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { SIZE = 1 << 20, NEWER = 99990, KNOWN = 13030 };

#define TELL(call) printf("%s: %d\n", #call, (int)(call))

static CUcontext context;
static void *driver;
static bool by_dlsym;
static void (*owner_begin)(CUdeviceptr, size_t, uintptr_t);
static void (*owner_end)(CUdeviceptr, uintptr_t);

static void *find(const char *symbol, const char *base, int version) {
    static CUresult (*get)(const char *, void **, int, cuuint64_t, void *);
    void *found = NULL;
    if (by_dlsym)
        return dlsym(driver, symbol);
    if (!get)
        *(void **)&get = dlsym(driver, "cuGetProcAddress_v2");
    REQUIRE(get && get(base, &found, version, 0, NULL) == CUDA_SUCCESS && found);
    return found;
}

#define FIND(function, symbol, base, version)                                                      \
    do {                                                                                           \
        *(void **)&(function) = find(symbol, base, version);                                       \
        REQUIRE(function);                                                                         \
    } while (0)

static CUdeviceptr take(void) {
    CUdeviceptr pointer;
    REQUIRE(cuMemAlloc_v2(&pointer, SIZE) == CUDA_SUCCESS);
    owner_begin(pointer, SIZE, (uintptr_t)take);
    return pointer;
}

static void give(CUdeviceptr pointer) {
    owner_end(pointer, (uintptr_t)give);
    REQUIRE(cuMemFree_v2(pointer) == CUDA_SUCCESS);
}

/* The block's next owner must not meet the work of the one before. */
static void pass_on(CUdeviceptr pointer) {
    give(pointer);
    CUdeviceptr again = take();
    TELL(cuMemsetD8_v2(again, 7, SIZE));
    give(again);
}

static void streams(void) {
    CUresult (*create)(unsigned int, CUstream *);
    CUstream stream;
    FIND(create, "cuStreamCreate_v2", "cuStreamCreate", NEWER);
    TELL(create(CU_STREAM_NON_BLOCKING, &stream));
    for (int i = 0; i < 3; i++) {
        CUdeviceptr pointer = take();
        TELL(cuMemsetD8Async(pointer, 1, SIZE, stream));
        pass_on(pointer);
    }
}

/* The count stands where the known form has its stream, and is the handle of the legacy one. */
static void set(void) {
    CUresult (*memset_in)(CUstream, CUdeviceptr, unsigned char, size_t);
    CUresult (*create)(unsigned int, CUstream *);
    CUstream stream;
    FIND(memset_in, "cuMemsetD8Async_v2", "cuMemsetD8Async", NEWER);
    FIND(create, "cuStreamCreate_v2", "cuStreamCreate", NEWER);
    TELL(create(CU_STREAM_NON_BLOCKING, &stream));
    for (int i = 0; i < 3; i++) {
        CUdeviceptr pointer = take();
        TELL(memset_in(stream, pointer, 1, 1));
        pass_on(pointer);
    }
}

static void unknown(void) {
    CUresult (*sparkle)(CUdeviceptr, size_t);
    FIND(sparkle, "cuMemSparkle", "cuMemSparkle", NEWER);
    for (int i = 0; i < 3; i++) {
        CUdeviceptr pointer = take();
        TELL(sparkle(pointer, SIZE));
        pass_on(pointer);
    }
}

static void destroy(void) {
    CUresult (*destroy_it)(unsigned int, CUstream);
    FIND(destroy_it, "cuStreamDestroy_v3", "cuStreamDestroy", NEWER);
    for (int i = 0; i < 3; i++) {
        CUstream stream;
        CUdeviceptr pointer = take();
        TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        TELL(cuMemsetD8Async(pointer, 1, SIZE, stream));
        TELL(destroy_it(0, stream));
        pass_on(pointer);
    }
}

static void prefetch(void) {
    CUresult (*prefetch_all)(size_t, CUstream, size_t, const CUdeviceptr *, const size_t *);
    FIND(prefetch_all, "cuMemPrefetchBatchAsync_v2", "cuMemPrefetchBatchAsync", NEWER);
    CUstream stream;
    CUdeviceptr pointer;
    size_t size = SIZE;
    TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 3; i++) {
        TELL(cuMemAllocManaged(&pointer, SIZE, CU_MEM_ATTACH_GLOBAL));
        TELL(prefetch_all(1, stream, 1, &pointer, &size));
        TELL(cuMemFree_v2(pointer));
    }
}

static void *allocate_and_free(void *unused) {
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    give(take());
    return unused;
}

static void in_another_thread(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, allocate_and_free, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static CUgraph capture(CUstream stream, CUdeviceptr pointer) {
    CUgraph graph;
    TELL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    TELL(cuMemsetD8Async(pointer, 3, SIZE, stream));
    TELL(cuStreamEndCapture(stream, &graph));
    return graph;
}

static void captures(const char *how) {
    CUresult (*begin)(CUstreamCaptureMode, CUstream) = NULL;
    CUresult (*begin_again)(CUstream, CUstreamCaptureMode, CUgraph, void *, void *) = NULL;
    CUresult (*end)(CUgraph *, CUstream), (*ask)(CUstreamCaptureStatus *, CUstream);
    CUstreamCaptureStatus status;
    CUstream stream;
    CUgraph graph = NULL;
    TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr pointer = take();
    give(take());
    if (strcmp(how, "both") == 0)
        FIND(end, "cuStreamEndQuietCapture", "cuStreamEndQuietCapture", NEWER);
    else
        FIND(end, "cuStreamEndCapture_v2", "cuStreamEndCapture", NEWER);
    FIND(ask, "cuStreamIsCapturing_v2", "cuStreamIsCapturing", NEWER);
    if (strcmp(how, "v3") == 0)
        FIND(begin, "cuStreamBeginCapture_v3", "cuStreamBeginCapture", NEWER);
    else if (strcmp(how, "quiet") == 0 || strcmp(how, "both") == 0)
        FIND(begin, "cuStreamBeginQuietCapture", "cuStreamBeginQuietCapture", NEWER);
    else
        FIND(begin_again, "cuStreamBeginRecaptureToGraph", "cuStreamBeginRecaptureToGraph", KNOWN);
    if (begin_again) {
        graph = capture(stream, pointer);
        TELL(begin_again(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, graph, NULL, NULL));
    } else {
        TELL(begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, stream));
    }
    TELL(cuMemsetD8Async(pointer, 4, SIZE, stream));
    in_another_thread();
    TELL(ask(&status, stream));
    printf("status %d\n", (int)status);
    CUgraph was = graph;
    TELL(end(&graph, stream));
    printf("a graph: %d, the same: %d\n", graph != NULL, graph == was);
    for (int i = 0; i < 1000; i++)
        give(take());
    give(pointer);
}

static CUstream begin_to_capture(void) {
    CUstream stream;
    TELL(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TELL(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    return stream;
}

static void forgotten(void) {
    CUresult (*forget)(CUstream);
    FIND(forget, "cuStreamForget", "cuStreamForget", NEWER);
    TELL(forget(begin_to_capture()));
}

static void end_context(void) {
    CUcontext other;
    TELL(cuCtxCreate_v2(&other, 0, 0));
    begin_to_capture();
    TELL(cuCtxDestroy_v2(other));
    TELL(cuCtxSetCurrent(context));
}

static void reset(void) {
    begin_to_capture();
    TELL(cuDevicePrimaryCtxReset_v2(0));
    TELL(cuDevicePrimaryCtxRetain(&context, 0));
    TELL(cuCtxSetCurrent(context));
}

static void lost_captures(const char *how) {
    if (strcmp(how, "forgotten") == 0)
        forgotten();
    else if (strcmp(how, "context") == 0)
        end_context();
    else
        reset();
    for (int i = 0; i < 1000; i++)
        give(take());
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    by_dlsym = strcmp(argv[1], "dlsym") == 0;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(driver);
    *(void **)&owner_begin = dlsym(driver, "simcuda_owner_begin");
    *(void **)&owner_end = dlsym(driver, "simcuda_owner_end");
    REQUIRE(owner_begin && owner_end);
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CUdeviceptr kept = take(); /* a context's last block is always waited for */
    if (strcmp(argv[2], "stream") == 0)
        streams();
    else if (strcmp(argv[2], "set") == 0)
        set();
    else if (strcmp(argv[2], "unknown") == 0)
        unknown();
    else if (strcmp(argv[2], "destroy") == 0)
        destroy();
    else if (strcmp(argv[2], "prefetch") == 0)
        prefetch();
    else if (strchr("vqba", argv[2][0]))
        captures(argv[2]);
    else
        lost_captures(argv[2]);
    if (strcmp(argv[2], "reset") != 0)
        give(kept);
    return 0;
}
