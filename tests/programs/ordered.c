/* Stream-ordered memory beside cudaMalloc's. The first argument is the case; each prints what its
 * calls returned and what was read. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { MOST = 160 << 20, WORDS = 16 }; /* of a device of 256 MiB */

static CUstream stream;
static CUfunction fill, spin;
static CUmemoryPool created;

static void load(void) {
    CUmodule module;
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    CHECK(cuModuleGetFunction(&spin, module, "spin_ns"));
}

static void keep_all(CUmemoryPool pool) {
    cuuint64_t all = UINT64_MAX;
    CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

static CUmemoryPool default_pool(void) {
    CUmemoryPool pool;
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    return pool;
}

static void create_pool(void) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CHECK(cuMemPoolCreate(&created, &properties));
    keep_all(created);
}

static unsigned long long reserved(CUmemoryPool pool) {
    cuuint64_t bytes = 0;
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

/* Most of the device lies unused in the pool afterwards. */
static void leave_unused_in(CUmemoryPool pool) {
    CUdeviceptr pointer;
    keep_all(pool);
    CHECK(cuMemAllocFromPoolAsync(&pointer, MOST, pool, stream));
    CHECK(cuMemFreeAsync(pointer, stream));
    CHECK(cuStreamSynchronize(stream));
    REQUIRE(reserved(pool) >= MOST);
}

static CUdeviceptr try_most(void) {
    CUdeviceptr pointer = 0;
    printf("alloc %d\n", (int)cuMemAlloc_v2(&pointer, MOST));
    return pointer;
}

static void fill_words(CUdeviceptr pointer, uint32_t value, CUstream in) {
    uint64_t count = WORDS;
    CHECK(
        cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, in, (void *[]){&pointer, &count, &value}, NULL));
}

static void keep_busy(CUstream in) {
    uint64_t nanoseconds = 5 * 1000 * 1000;
    CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, in, (void *[]){&nanoseconds}, NULL));
}

static void print_word(const char *name, CUdeviceptr pointer) {
    uint32_t words[WORDS];
    CHECK(cuMemcpyDtoH_v2(words, pointer, sizeof words));
    printf("%s %u\n", name, words[WORDS - 1]);
}

static void counts(void) {
    CUdeviceptr pointer;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(cuMemAllocAsync(&pointer, 3000, stream));
        CHECK(cuMemFreeAsync(pointer, stream));
    }
    CHECK(cuMemAllocFromPoolAsync(&pointer, 5000, default_pool(), stream));
    printf("too much: %d\n", (int)cuMemAllocAsync(&pointer, (size_t)1 << 40, stream));
    printf("nothing: %d\n", (int)cuMemFreeAsync(0, stream));
}

static void unused_in_the_default_pool(void) {
    leave_unused_in(default_pool());
    try_most();
}

static void unused_in_a_created_pool(void) {
    create_pool();
    leave_unused_in(created);
    try_most();
}

static void unused_in_another_pool(void) {
    CUdeviceptr pointer;
    create_pool();
    leave_unused_in(created);
    printf("alloc %d\n", (int)cuMemAllocAsync(&pointer, MOST, stream));
}

/* With SIMCUDA_CALL_MEMORY. */
static void unused_when_a_stream_is_made(void) {
    CUstream made;
    leave_unused_in(default_pool());
    printf("stream %d\n", (int)cuStreamCreate(&made, CU_STREAM_DEFAULT));
}

/* What is in use stays where it is. */
static void live_in_a_pool(void) {
    CUdeviceptr kept;
    CHECK(cuMemAllocAsync(&kept, 1 << 20, stream));
    fill_words(kept, 77, stream);
    leave_unused_in(default_pool());
    try_most();
    print_word("kept", kept);
    CHECK(cuMemFreeAsync(kept, stream));
}

/* A relaxed capture allows the allocation; but nothing is asked of memory pools meanwhile. */
static void unused_during_a_capture(void) {
    CUdeviceptr pointer, words;
    CUstream capturing;
    CUgraph graph = NULL;
    CHECK(cuMemAlloc_v2(&words, 4096));
    CHECK(cuStreamCreate(&capturing, CU_STREAM_NON_BLOCKING));
    leave_unused_in(default_pool());
    CHECK(cuStreamBeginCapture_v2(capturing, CU_STREAM_CAPTURE_MODE_RELAXED));
    fill_words(words, 1, capturing);
    printf("alloc %d\n", (int)cuMemAlloc_v2(&pointer, MOST));
    printf("end %d\n", (int)cuStreamEndCapture(capturing, &graph));
    try_most();
}

/* Nothing is asked of a pool that is no more. */
static void destroyed(void) {
    create_pool();
    leave_unused_in(created);
    CHECK(cuMemPoolDestroy(created));
    printf("again %d\n", (int)cuMemPoolDestroy(created));
    create_pool();
    leave_unused_in(created);
    CUdeviceptr pointer = try_most();
    CHECK(cuMemPoolDestroy(created));
    CHECK(cuMemFree_v2(pointer));
    try_most();
}

/* Natively the free waits for the stream-ordered free before it. Here the block that it frees is in
 * use again when memory is short: only a wait brings what the memory pool has. */
static void queued_behind_a_free(void) {
    CUdeviceptr large, small, kept;
    CHECK(cuMemAlloc_v2(&kept, 4096));
    CHECK(cuMemAlloc_v2(&small, 8192));
    CHECK(cuMemAllocAsync(&large, MOST, NULL));
    keep_busy(NULL);
    CHECK(cuMemFreeAsync(large, NULL));
    CHECK(cuMemFree_v2(small));
    CHECK(cuMemAlloc_v2(&small, 8192));
    try_most();
}

/* A stream that goes on allocating, working and freeing, without a wait. */
static void one_stream(void) {
    CUdeviceptr pointer, kept;
    CHECK(cuMemAllocAsync(&kept, 1 << 20, stream));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(cuMemAllocAsync(&pointer, 1 << 20, stream));
        fill_words(pointer, (uint32_t)i, stream);
        CHECK(cuMemcpyDtoDAsync_v2(kept, pointer, WORDS * 4, stream));
        CHECK(cuMemFreeAsync(pointer, stream));
    }
    CHECK(cuStreamSynchronize(stream));
    print_word("last", kept);
    printf("free %d\n", (int)cuMemFree_v2(kept));
}

/* What one stream frees while it is busy another asks for; then the other way round, with an event
 * between them. */
static void two_streams(void) {
    CUdeviceptr first, second, kept;
    CUstream other;
    CUevent written;
    CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc_v2(&kept, 1 << 20));
    for (int i = 0; i < ROUNDS / 10; i++) {
        CHECK(cuMemAllocAsync(&first, 1 << 20, stream));
        keep_busy(stream);
        fill_words(first, (uint32_t)i, stream);
        CHECK(cuMemcpyDtoDAsync_v2(kept, first, WORDS * 4, stream));
        CHECK(cuMemFreeAsync(first, stream));
        CHECK(cuMemAllocAsync(&second, 1 << 20, other));
        fill_words(second, 1000, other);
        CHECK(cuEventRecord(written, other));
        CHECK(cuStreamWaitEvent(stream, written, 0));
        fill_words(second, 2000, stream);
        CHECK(cuMemFreeAsync(second, stream));
    }
    CHECK(cuStreamSynchronize(stream));
    print_word("last", kept);
}

/* Either kind of memory, freed in the other's way. */
static void freed_the_other_way(void) {
    CUdeviceptr pointer, words;
    CHECK(cuMemAlloc_v2(&words, 4096));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(cuMemAlloc_v2(&pointer, 1 << 20));
        fill_words(pointer, 1, stream);
        CHECK(cuMemFreeAsync(pointer, stream));
        CHECK(cuMemAllocAsync(&pointer, 1 << 20, stream));
        fill_words(pointer, (uint32_t)i, stream);
        CHECK(cuMemcpyDtoDAsync_v2(words, pointer, WORDS * 4, stream));
        CHECK(cuStreamSynchronize(stream)); /* natively this free does not wait */
        CHECK(cuMemFree_v2(pointer));
    }
    print_word("last", words);
}

/* A stream's handle that is used again is another stream. */
static void streams_come_and_go(void) {
    CUdeviceptr pointer;
    for (int i = 0; i < ROUNDS; i++) {
        CUstream passing;
        CHECK(cuStreamCreate(&passing, CU_STREAM_NON_BLOCKING));
        CHECK(cuMemAllocAsync(&pointer, 1 << 20, passing));
        if (i < 3)
            keep_busy(passing);
        fill_words(pointer, (uint32_t)i, passing);
        CHECK(cuMemFreeAsync(pointer, passing));
        CHECK(cuStreamDestroy_v2(passing));
    }
    printf("wait %d\n", (int)cuCtxSynchronize());
}

static void errors(void) {
    CUdeviceptr pointer;
    create_pool();
    CHECK(cuMemAllocAsync(&pointer, 5000, stream));
    printf("inside: %d\n", (int)cuMemFreeAsync(pointer + 256, stream));
    CHECK(cuMemFreeAsync(pointer, stream));
    CHECK(cuStreamSynchronize(stream));
    printf("twice: %d\n", (int)cuMemFreeAsync(pointer, stream));
    printf("twice: %d\n", (int)cuMemFree_v2(pointer));
    printf("nothing: %d\n", (int)cuMemAllocAsync(&pointer, 0, stream));
    printf("nowhere: %d\n", (int)cuMemAllocAsync(NULL, 5000, stream));
    printf("too much: %d\n", (int)cuMemAllocAsync(&pointer, (size_t)1 << 40, stream));
    printf("no pool: %d\n", (int)cuMemAllocFromPoolAsync(&pointer, 5000, NULL, stream));
    printf("its own pool: %d\n", (int)cuMemAllocFromPoolAsync(&pointer, 5000, created, stream));
    printf("used of it: %llu\n", reserved(created));
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"counts", counts},
    {"unused_in_the_default_pool", unused_in_the_default_pool},
    {"unused_in_a_created_pool", unused_in_a_created_pool},
    {"unused_in_another_pool", unused_in_another_pool},
    {"unused_when_a_stream_is_made", unused_when_a_stream_is_made},
    {"live_in_a_pool", live_in_a_pool},
    {"unused_during_a_capture", unused_during_a_capture},
    {"destroyed", destroyed},
    {"queued_behind_a_free", queued_behind_a_free},
    {"one_stream", one_stream},
    {"two_streams", two_streams},
    {"freed_the_other_way", freed_the_other_way},
    {"streams_come_and_go", streams_come_and_go},
    {"errors", errors},
};

int main(int argc, char **argv) {
    CUcontext context;
    REQUIRE(argc == 2);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    load();
    /* A created stream would be a reason against owed waits. */
    if (strcmp(argv[1], "queued_behind_a_free") != 0)
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    REQUIRE(!"a case of that name");
}
