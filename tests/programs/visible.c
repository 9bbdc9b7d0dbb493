/* What a program sees right after a free, which natively waits for all work: one case a process,
 * named by the argument. Each keeps a block live, so that the free has no other reason to wait. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 4096, BUSY_NS = 60 * 1000 * 1000 };

static CUmodule module;
static CUfunction spin, fill;
static CUcontext context;
static CUdeviceptr kept, freed;

static void launch(CUfunction function, void **arguments, CUstream stream) {
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void keep_busy(CUstream stream) {
    uint64_t busy = BUSY_NS;
    void *arguments[] = {&busy};
    launch(spin, arguments, stream);
}

static void fill_with(CUdeviceptr to, uint32_t value, CUstream stream) {
    uint64_t count = BYTES / 4;
    void *arguments[] = {&to, &count, &value};
    launch(fill, arguments, stream);
}

static void start(void) {
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&spin, module, "spin_ns"));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    CHECK(cuMemAlloc_v2(&kept, BYTES));
    CHECK(cuMemAlloc_v2(&freed, BYTES));
}

/* The device writes 7 into memory that the host sees, some time after this returns. */
static int read_after_free(uint32_t *host, CUdeviceptr device) {
    *host = 0;
    keep_busy(NULL);
    fill_with(device, 7, NULL);
    CHECK(cuMemFree_v2(freed));
    return (int)*(volatile uint32_t *)host;
}

static int pinned(void) {
    void *host;
    CUdeviceptr device;
    CHECK(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer_v2(&device, host, 0));
    return read_after_free(host, device);
}

/* A free of nothing leaves what is pinned as it is. */
static int pinned_beside_a_free_of_null(void) {
    void *host;
    CUdeviceptr device;
    CHECK(cuMemHostAlloc(&host, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer_v2(&device, host, 0));
    CHECK(cuMemFreeHost(NULL));
    return read_after_free(host, device);
}

static int pinned_by_the_first_abi(void) { /* whose size is 32 bits and whose pointer is not */
    void *host;
    CUdeviceptr device;
    CHECK(cuMemAllocHost(&host, BYTES));
    CHECK(cuMemHostGetDevicePointer_v2(&device, host, 0));
    return read_after_free(host, device);
}

static int registered(void) {
    static _Alignas(4096) uint32_t host[BYTES / 4];
    CUdeviceptr device;
    CHECK(cuMemHostRegister_v2(host, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer_v2(&device, host, 0));
    return read_after_free(host, device);
}

static int managed(void) {
    CUdeviceptr device;
    CHECK(cuMemAllocManaged(&device, BYTES, CU_MEM_ATTACH_GLOBAL));
    return read_after_free((uint32_t *)(uintptr_t)device, device);
}

static int copied(void) { /* pinned memory that is only copied to */
    void *host;
    CHECK(cuMemAllocHost_v2(&host, BYTES));
    *(uint32_t *)host = 0;
    keep_busy(NULL);
    fill_with(kept, 7, NULL);
    CHECK(cuMemcpyDtoHAsync_v2(host, kept, BYTES, NULL));
    CHECK(cuMemFree_v2(freed));
    return (int)*(volatile uint32_t *)host;
}

static int event(void) {
    CUevent recorded;
    CHECK(cuEventCreate(&recorded, CU_EVENT_DISABLE_TIMING));
    keep_busy(NULL);
    CHECK(cuEventRecord(recorded, NULL));
    CHECK(cuMemFree_v2(freed));
    return (int)cuEventQuery(recorded);
}

static int query(void) {
    keep_busy(NULL);
    CHECK(cuMemFree_v2(freed));
    return (int)cuStreamQuery(NULL);
}

static int elapsed(void) { /* between two events after the free there is nothing */
    CUevent first, second;
    float milliseconds;
    CHECK(cuEventCreate(&first, 0));
    CHECK(cuEventCreate(&second, 0));
    keep_busy(NULL);
    CHECK(cuMemFree_v2(freed));
    CHECK(cuEventRecord(first, NULL));
    CHECK(cuEventRecord(second, NULL));
    CHECK(cuEventSynchronize(second));
    CHECK(cuEventElapsedTime(&milliseconds, first, second));
    return milliseconds < 30;
}

static int work_of(CUstream stream) {
    keep_busy(stream);
    CHECK(cuMemFree_v2(freed));
    return (int)cuStreamQuery(stream);
}

static int blocking(void) {
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    return work_of(stream);
}

static int non_blocking(void) {
    CUstream stream;
    CHECK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    return work_of(stream);
}

static int per_thread(void) {
    return work_of(CU_STREAM_PER_THREAD);
}

static int per_thread_form(void) {
    uint64_t busy = BUSY_NS;
    void *arguments[] = {&busy};
    CHECK(cuLaunchKernel_ptsz(spin, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuMemFree_v2(freed));
    return (int)cuStreamQuery(CU_STREAM_PER_THREAD);
}

/* The stream is gone, its work is not, and only the free waits for it. */
static int destroyed(void) {
    CUstream stream;
    CUevent recorded;
    CHECK(cuEventCreate(&recorded, CU_EVENT_DISABLE_TIMING));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    keep_busy(stream);
    CHECK(cuEventRecord(recorded, stream));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuMemFree_v2(freed));
    return (int)cuEventQuery(recorded);
}

static volatile int called;
static void call(void *data) {
    called = (int)(intptr_t)data;
}

static int callback(void) {
    keep_busy(NULL);
    CHECK(cuLaunchHostFunc(NULL, call, (void *)7));
    CHECK(cuMemFree_v2(freed));
    return called;
}

static int graph(void) {
    CUgraph recorded;
    CUgraphExec executable;
    CUstream stream;
    CUdeviceptr other;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CHECK(cuLaunchHostFunc(stream, call, (void *)7));
    CHECK(cuStreamEndCapture(stream, &recorded));
    CHECK(cuGraphInstantiateWithFlags(&executable, recorded, 0));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuMemAlloc_v2(&other, BYTES)); /* its free waits because of the stream */
    CHECK(cuMemFree_v2(other));
    keep_busy(NULL);
    CHECK(cuGraphLaunch(executable, NULL));
    CHECK(cuMemFree_v2(freed));
    return called;
}

static void *free_it(void *data) {
    (void)data;
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemFree_v2(freed));
    return NULL;
}

static int another_thread(void) { /* one frees, another asks */
    pthread_t thread;
    keep_busy(NULL);
    REQUIRE(pthread_create(&thread, NULL, free_it, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    return (int)cuStreamQuery(NULL);
}

static int looked_up(void) { /* by the function that asks the driver */
    CUresult (*ask)(CUstream);
    CUdriverProcAddressQueryResult status;
    keep_busy(NULL);
    CHECK(cuMemFree_v2(freed));
    CHECK(cuGetProcAddress_v2("cuStreamQuery", (void **)&ask, 12000, 0, &status));
    return (int)ask(NULL);
}

static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    {"pinned", pinned},
    {"pinned_by_the_first_abi", pinned_by_the_first_abi},
    {"registered", registered},
    {"managed", managed},
    {"pinned_beside_a_free_of_null", pinned_beside_a_free_of_null},
    {"copied", copied},
    {"event", event},
    {"query", query},
    {"elapsed", elapsed},
    {"blocking", blocking},
    {"non_blocking", non_blocking},
    {"per_thread", per_thread},
    {"per_thread_form", per_thread_form},
    {"destroyed", destroyed},
    {"callback", callback},
    {"graph", graph},
    {"another_thread", another_thread},
    {"looked_up", looked_up},
};

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0)
            continue;
        start();
        printf("%s: %d\n", cases[i].name, cases[i].run());
        return 0;
    }
    REQUIRE(!"a case of that name");
}
