/* What CUDA answers about memory at a moment that the argument names: in a stream's callback or
 * host function, after a kernel's fault, without a context. Natively and under the pool the lines
 * are the same. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 3 << 20, NEVER = 0x7000 };

static struct {
    CUcontext context;
    CUdeviceptr live, freed, managed, freed_managed;
    void *pinned, *freed_pinned;
    CUstream stream;
} have;

static void tell(const char *question, const char *about, CUresult result, long long answer) {
    printf("%s of %s: %d", question, about, (int)result);
    if (result == CUDA_SUCCESS)
        printf(" %lld", answer);
    printf("\n");
}

static void ask_attribute(const char *about, CUdeviceptr pointer, CUpointer_attribute attribute) {
    static const unsigned char none[sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS)];
    char question[32];
    unsigned char data[sizeof none] = {0};
    CUdeviceptr start = 0;
    snprintf(question, sizeof question, "attribute %d", (int)attribute);
    CUresult result = cuPointerGetAttribute(data, attribute, pointer);
    memcpy(&start, data, sizeof start);
    if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
        tell(question, about, result, (long long)(pointer - start));
    else if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE ||
             attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        tell(question, about, result, (long long)start);
    else
        tell(question, about, result, memcmp(data, none, sizeof none) != 0);
}

/* No more than what natively has no effect on the memory. */
static void ask_about(const char *about, CUdeviceptr pointer) {
    CUdeviceptr base = 0, start = 0;
    size_t bytes = 0, range = 0;
    unsigned type = 99;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *data[] = {&type, &start, &range};
    CUresult result = cuMemGetAddressRange_v2(&base, &bytes, pointer);
    tell("range", about, result, (long long)(pointer - base));
    tell("range's bytes", about, result, (long long)bytes);
    tell("only range", about, cuMemGetAddressRange_v2(NULL, NULL, pointer), 0);
    ask_attribute(about, pointer, CU_POINTER_ATTRIBUTE_CONTEXT);
    ask_attribute(about, pointer, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    ask_attribute(about, pointer, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
    ask_attribute(about, pointer, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
    ask_attribute(about, pointer, CU_POINTER_ATTRIBUTE_IS_MANAGED);
    result = cuPointerGetAttributes(3, attributes, data, pointer);
    tell("attributes' type", about, result, type);
    tell("attributes' start", about, result, start ? (long long)(pointer - start) : -1);
    tell("attributes' size", about, result, (long long)range);
}

/* What shares the memory, or would: asked last. */
static void share(const char *about, CUdeviceptr pointer) {
    CUipcMemHandle handle;
    int file = -1, on = 1;
    tell("buffer", about,
         cuPointerGetAttribute(&(unsigned long long){0}, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer),
         0);
    tell("handle", about, cuIpcGetMemHandle(&handle, pointer), 0);
    tell(
        "file", about,
        cuMemGetHandleForAddressRange(&file, pointer, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
        0);
    tell("order", about, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer), 0);
}

static void ask_about_host(const char *about, void *memory) {
    CUdeviceptr device = 0;
    unsigned flags = 99;
    CUresult result = cuMemHostGetDevicePointer_v2(&device, memory, 0);
    tell("device's pointer", about, result, device == (CUdeviceptr)memory);
    result = cuMemHostGetFlags(&flags, memory);
    tell("flags", about, result, flags);
    ask_attribute(about, (CUdeviceptr)memory, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    ask_attribute(about, (CUdeviceptr)memory + 100, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
}

static void ask_about_managed(const char *about, CUdeviceptr pointer) {
    int read_mostly = 99;
    CUresult result = cuMemRangeGetAttribute(&read_mostly, sizeof read_mostly,
                                             CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, pointer, BYTES);
    tell("read mostly", about, result, read_mostly);
    ask_attribute(about, pointer, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    ask_attribute(about, pointer + 100, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
}

/* Lists of ranges, which are as good as their worst. */
static void move_all(const char *about, CUdeviceptr pointer) {
    CUdeviceptr pointers[] = {have.managed, pointer};
    size_t sizes[] = {4096, 4096}, first = 0;
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    CUresult (*prefetch)(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t,
                         unsigned long long, CUstream);
    CUresult (*discard)(CUdeviceptr *, size_t *, size_t, unsigned long long, CUstream);
    *(void **)&prefetch = dlsym(RTLD_DEFAULT, "cuMemPrefetchBatchAsync"); /* not in CUDA 12's */
    *(void **)&discard = dlsym(RTLD_DEFAULT, "cuMemDiscardBatchAsync");
    REQUIRE(prefetch && discard);
    tell("prefetch with others", about,
         prefetch(pointers, sizes, 2, &host, &first, 1, 0, have.stream), 0);
    tell("discard with others", about, discard(pointers, sizes, 2, 0, have.stream), 0);
}

static void ask(void) {
    size_t available = 0, total = 0;
    CUdeviceptr block = 0;
    CUresult result = cuMemGetInfo_v2(&available, &total);
    tell("memory", "the device", result, (long long)total);
    ask_about("a block", have.live);
    ask_about("the midst of a block", have.live + 1000);
    ask_about("a block's last byte", have.live + BYTES - 1);
    ask_about("a freed block", have.freed);
    ask_about("the midst of a freed block", have.freed + BYTES / 2);
    ask_about("nothing", NEVER);
    ask_about_host("pinned memory", have.pinned);
    ask_about_host("freed pinned memory", have.freed_pinned);
    ask_about_managed("managed memory", have.managed);
    ask_about_managed("freed managed memory", have.freed_managed);
    move_all("freed managed memory", have.freed_managed);
    share("a freed block", have.freed);
    share("nothing", NEVER);
    tell("free", "a freed block", cuMemFree_v2(have.freed), 0);
    tell("free", "nothing", cuMemFree_v2(NEVER), 0);
    tell("share of", "a block",
         cuPointerSetAttribute(&(int){1}, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, have.live), 0);
    tell("free", "a block", cuMemFree_v2(have.live), 0);
    result = cuMemAlloc_v2(&block, BYTES);
    tell("allocation", "a block", result, block != 0);
    if (block)
        tell("free", "a new block", cuMemFree_v2(block), 0);
}

static atomic_int called;

static void callback(CUstream stream, CUresult status, void *data) {
    (void)stream;
    printf("callback %d\n", (int)status);
    if (data)
        ask();
    atomic_store(&called, 1);
}

static void host_function(void *data) {
    (void)data;
    ask();
    atomic_store(&called, 1);
}

static atomic_int submitted;

static void await_submission(void *data) {
    (void)data;
    while (!atomic_load(&submitted))
        sched_yield();
}

static void await_call(void) {
    while (!atomic_load(&called))
        sched_yield();
}

/* A kernel's fault, of which no call has told yet. */
static void fail(void) {
    CUmodule module;
    CUfunction fault;
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fault, module, "fault"));
    CHECK(cuLaunchHostFunc(have.stream, await_submission, NULL));
    CHECK(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, have.stream, NULL, NULL));
    CHECK(cuStreamAddCallback(have.stream, callback, NULL, 0));
    atomic_store(&submitted, 1);
    await_call();
}

static void at_callback(void) {
    CHECK(cuStreamAddCallback(have.stream, callback, &have, 0));
    await_call();
}

static void at_host_function(void) {
    CHECK(cuLaunchHostFunc(have.stream, host_function, NULL));
    await_call();
}

static void at_unseen_fault(void) {
    fail();
    ask();
}

static void at_seen_fault(void) {
    fail();
    printf("synchronize %d\n", (int)cuCtxSynchronize());
    ask();
}

static void at_no_context(void) {
    CHECK(cuCtxSetCurrent(NULL));
    ask();
}

static const struct {
    const char *name;
    void (*come)(void);
} moments[] = {
    {"any", ask},
    {"callback", at_callback},
    {"host_function", at_host_function},
    {"unseen_fault", at_unseen_fault},
    {"seen_fault", at_seen_fault},
    {"no_context", at_no_context},
};

static void prepare(void) {
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&have.context, 0));
    CHECK(cuCtxSetCurrent(have.context));
    CHECK(cuStreamCreate(&have.stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc_v2(&have.live, BYTES));
    CHECK(cuMemAlloc_v2(&have.freed, BYTES));
    CHECK(cuMemHostAlloc(&have.pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemHostAlloc(&have.freed_pinned, BYTES, CU_MEMHOSTALLOC_PORTABLE));
    CHECK(cuMemAllocManaged(&have.managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemAllocManaged(&have.freed_managed, BYTES, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemFree_v2(have.freed));
    CHECK(cuMemFreeHost(have.freed_pinned));
    CHECK(cuMemFree_v2(have.freed_managed));
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++)
        if (strcmp(moments[i].name, argv[1]) == 0) {
            prepare();
            moments[i].come();
            return 0;
        }
    REQUIRE(!"a moment of that name");
}
