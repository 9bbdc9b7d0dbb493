/* A call that needs device memory while all of it is idle in a place where it is easily overlooked.
 * memory_elsewhere PLACE CASE:
 *
 *   device     on another device than the current context's, which is the one the call is about
 *   context    in another context of the same device
 *   busy       in blocks that were freed under work that still runs
 *   global, thread_local, relaxed
 *              in this context, beside a capture of that mode by the same thread
 *   beside     in this context, beside a capture of global mode by another thread
 *
 * Prints the call's result and, where there is one, that of the capture's end. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BIG = 16 << 20, SMALL = 2 << 20, BLOCKS = 128, WANTED = 64 << 20 };

/* What a case works with, all of it made while there was memory. `device` and `stream` are those
 * that the call is about. */
static CUdevice device;
static CUstream stream, capturing;
static CUfunction fill, spin;
static CUdeviceptr words, mapped;
static CUmemGenericAllocationHandle physical;
static CUgraph graph;
static CUgraphExec executable;
static CUmemoryPool pool;

static const CUmemAllocationProp *properties(void) {
    static CUmemAllocationProp made = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    made.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    return &made;
}

static CUcontext new_context(CUdevice of) {
    CUcontext made;
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    CHECK(create(&made, 0, of));
    return made;
}

static CUresult run_fill(CUstream in) {
    uint64_t count = 16;
    uint32_t value = 3;
    return cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, in, (void *[]){&words, &count, &value}, NULL);
}

static CUresult alloc(void) {
    CUdeviceptr pointer;
    return cuMemAlloc_v2(&pointer, WANTED);
}

static CUresult alloc_async(void) {
    CUdeviceptr pointer;
    return cuMemAllocFromPoolAsync(&pointer, WANTED, pool, stream);
}

static CUresult create_memory(void) {
    CUmemGenericAllocationHandle handle;
    return cuMemCreate(&handle, WANTED, properties(), 0);
}

static CUresult map(void) {
    return cuMemMap(mapped, SMALL, 0, physical, 0);
}

static CUresult create_pool(void) {
    CUmemoryPool made;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    return cuMemPoolCreate(&made, &props);
}

static CUresult create_context(void) {
    CUcontext made;
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    return create(&made, 0, device);
}

static CUresult retain_primary(void) {
    CUcontext primary;
    return cuDevicePrimaryCtxRetain(&primary, device);
}

static CUresult create_stream(void) {
    CUstream made;
    return cuStreamCreate(&made, CU_STREAM_NON_BLOCKING);
}

static CUresult create_event(void) {
    CUevent made;
    return cuEventCreate(&made, CU_EVENT_DEFAULT);
}

static CUresult instantiate(void) {
    CUgraphExec made;
    return cuGraphInstantiateWithFlags(&made, graph, 0);
}

static CUresult upload(void) {
    return cuGraphUpload(executable, stream);
}

static CUresult launch_graph(void) {
    return cuGraphLaunch(executable, stream);
}

static CUresult launch(void) {
    return run_fill(stream);
}

static const struct {
    const char *name;
    CUresult (*call)(void);
} cases[] = {
    {"alloc", alloc},
    {"alloc_async", alloc_async},
    {"create_memory", create_memory},
    {"map", map},
    {"create_pool", create_pool},
    {"create_context", create_context},
    {"retain_primary", retain_primary},
    {"create_stream", create_stream},
    {"create_event", create_event},
    {"instantiate", instantiate},
    {"upload", upload},
    {"launch_graph", launch_graph},
    {"launch", launch},
};

/* In the current context, which is one of `device`. */
static void prepare(void) {
    CUmodule module;
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    CHECK(cuModuleGetFunction(&spin, module, "spin_ns"));
    CHECK(cuMemAlloc_v2(&words, 4096));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(run_fill(capturing));
    CHECK(cuStreamEndCapture(capturing, &graph));
    CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK(cuMemCreate(&physical, SMALL, properties(), 0));
    CHECK(cuMemAddressReserve(&mapped, SMALL, 0, 0, 0));
    CHECK(cuDeviceGetDefaultMemPool(&pool, device));
}

/* Takes all memory that the current context can have, and frees it. */
static void leave_all_idle(void) {
    static CUdeviceptr blocks[BLOCKS];
    int count = 0;
    for (size_t size = BIG; size >= SMALL; size = size == BIG ? SMALL : 0)
        while (count < BLOCKS && cuMemAlloc_v2(&blocks[count], size) == CUDA_SUCCESS)
            count++;
    REQUIRE(count > 0 && count < BLOCKS);
    for (int i = 0; i < count; i++)
        CHECK(cuMemFree_v2(blocks[i]));
}

static void keep_busy(void) {
    uint64_t ns = 50 * 1000 * 1000;
    CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&ns}, NULL));
}

/* The place's captures; those of other places are none. */
static const struct {
    const char *place;
    CUstreamCaptureMode mode;
    bool other_thread;
} captures[] = {
    {"global", CU_STREAM_CAPTURE_MODE_GLOBAL, false},
    {"thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, false},
    {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED, false},
    {"beside", CU_STREAM_CAPTURE_MODE_GLOBAL, true},
};

struct job {
    CUcontext context;
    CUresult (*call)(void);
    CUresult result;
};

static void *run_job(void *data) {
    struct job *job = data;
    CHECK(cuCtxSetCurrent(job->context));
    job->result = job->call();
    return NULL;
}

static CUresult in_thread(CUresult (*call)(void)) {
    struct job job = {.call = call};
    pthread_t thread;
    CHECK(cuCtxGetCurrent(&job.context));
    REQUIRE(pthread_create(&thread, NULL, run_job, &job) == 0);
    pthread_join(thread, NULL);
    return job.result;
}

static void make_call(const char *place, const char *name, CUresult (*call)(void)) {
    for (size_t i = 0; i < sizeof captures / sizeof captures[0]; i++) {
        CUgraph captured;
        if (strcmp(captures[i].place, place) != 0)
            continue;
        CHECK(cuStreamBeginCapture_v2(capturing, captures[i].mode));
        CUresult result = captures[i].other_thread ? in_thread(call) : call();
        printf("%s: %d, end of the capture: %d\n", name, (int)result,
               (int)cuStreamEndCapture(capturing, &captured));
        return;
    }
    printf("%s: %d\n", name, (int)call());
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    const char *place = argv[1];
    CHECK(cuInit(0));
    CUcontext near = new_context(0);
    if (strcmp(place, "device") == 0)
        new_context(device = 1);
    prepare();
    if (strcmp(place, "context") == 0)
        new_context(0);
    if (strcmp(place, "busy") == 0)
        keep_busy();
    leave_all_idle();
    CHECK(cuCtxSetCurrent(near));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[2]) == 0) {
            make_call(place, cases[i].name, cases[i].call);
            return 0;
        }
    REQUIRE(!"a case of that name");
}
