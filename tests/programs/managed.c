/* Managed memory through the runtime: "loop", the same size allocated, used and freed again and
 * again; "said", about which each owner says all that can be said, and is told what there is before
 * that; "discarded"; "parts", of which one was prefetched; "first_use", which a pool must let
 * nothing overtake; "freed", about which nothing can be said any more; "after_device", in whose
 * way idle memory may be. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <cuda_runtime_api.h>
#include <simcuda.h>
#include <stdint.h>
#include <string.h>

#define CHECK(call) REQUIRE((int)(call) == 0)

enum { MIB = 1 << 20, BYTES = 8 * MIB + 100, OWNERS = 5 };
enum { LAST_PREFETCH_TYPE = 7 }; /* older headers do not name it */
#if CUDA_VERSION < 13000
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
                                 CUmemLocation *places, size_t *firsts, size_t kinds,
                                 unsigned long long flags, CUstream stream);
CUresult cuMemDiscardBatchAsync(CUdeviceptr *addresses, size_t *sizes, size_t count,
                                unsigned long long flags, CUstream stream);
#endif

static CUdeviceptr allocate(size_t bytes) {
    void *memory;
    CHECK(cudaMallocManaged(&memory, bytes, cudaMemAttachGlobal));
    return (CUdeviceptr)(uintptr_t)memory;
}

static void release(CUdeviceptr pointer) {
    CHECK(cudaFree((void *)(uintptr_t)pointer));
}

static void loop(void) {
    for (int round = 0; round < ROUNDS; round++) {
        CUdeviceptr pointer = allocate(BYTES);
        volatile unsigned char *memory = (volatile unsigned char *)(uintptr_t)pointer;
        memory[0] = memory[BYTES - 1] = (unsigned char)round;
        CHECK(cudaMemset((void *)(uintptr_t)pointer, round, BYTES));
        REQUIRE(memory[0] == (unsigned char)round);
        release(pointer);
    }
    printf("done\n");
}

static int ask(CUdeviceptr pointer, int attribute) {
    int answer = 99;
    CHECK(cuMemRangeGetAttribute(&answer, sizeof answer, (CUmem_range_attribute)attribute, pointer,
                                 BYTES));
    return answer;
}

/* All that can be asked, in both ways. */
static void tell(CUdeviceptr pointer) {
    int by[3], place = 99, mostly = 99, type = 99;
    void *data[] = {&mostly, &place, &type};
    size_t sizes[] = {sizeof mostly, sizeof place, sizeof type};
    CUmem_range_attribute wanted[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                      CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                      (CUmem_range_attribute)LAST_PREFETCH_TYPE};
    CHECK(
        cuMemRangeGetAttribute(by, sizeof by, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, pointer, BYTES));
    CHECK(cuMemRangeGetAttributes(data, sizes, wanted, 3, pointer, BYTES));
    REQUIRE(ask(pointer, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION) == place);
    REQUIRE(ask(pointer, LAST_PREFETCH_TYPE) == type);
    printf("mostly read %d, preferred %d, accessed by %d %d, prefetched to %d, attached %u\n",
           mostly, ask(pointer, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION), by[0], by[1], place,
           simcuda_association(pointer));
}

static void say_all(CUdeviceptr pointer, cudaStream_t stream) {
    CHECK(cuMemAdvise(pointer, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    CHECK(cuMemAdvise(pointer, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
    CHECK(cuMemAdvise(pointer, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, 1));
    CHECK(cuMemAdvise(pointer, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, CU_DEVICE_CPU));
    CHECK(cuMemPrefetchAsync(pointer, BYTES, 0, stream));
    CHECK(cudaStreamAttachMemAsync(stream, (void *)(uintptr_t)pointer, BYTES, cudaMemAttachSingle));
    CHECK(cudaStreamSynchronize(stream));
}

static void said(void) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int owner = 0; owner < OWNERS; owner++) {
        CUdeviceptr pointer = allocate(BYTES);
        tell(pointer);
        if (owner % 2 ==
            0) /* every second finds what the first left, and what the pool made of it */
            say_all(pointer, stream);
        tell(pointer);
        release(pointer);
    }
}

static void discarded(void) {
    for (int owner = 0; owner < OWNERS; owner++) {
        CUdeviceptr pointer = allocate(BYTES);
        size_t size = BYTES;
        CHECK(cuMemDiscardBatchAsync(&pointer, &size, 1, 0, CU_STREAM_PER_THREAD));
        release(pointer);
    }
    printf("done\n");
}

/* A prefetch of a part is one of an owner's, and a later whole one another. */
static void parts(void) {
    CUdeviceptr pointer = allocate(BYTES);
    size_t size = BYTES, first = 0;
    CUmemLocation host = {.type = (CUmemLocationType)2};
    CHECK(cuMemPrefetchAsync(pointer, MIB, 1, NULL));
    tell(pointer);
    CHECK(cuMemPrefetchBatchAsync(&pointer, &size, 1, &host, &first, 1, 0, CU_STREAM_PER_THREAD));
    tell(pointer);
    release(pointer);
    pointer = allocate(BYTES);
    tell(pointer);
    CHECK(cuMemPrefetchAsync_ptsz(pointer, BYTES, 1, NULL));
    tell(pointer);
    release(pointer);
}

/* A kernel writes to memory that is freed while it runs. Its next owner finds what it puts there.
 */
static void first_use(void) {
    CUmodule module;
    CUfunction spin, fill;
    uint64_t busy = 20 * 1000 * 1000, count = 1024;
    uint32_t seven = 7;
    int wrong = 0;
    CHECK(cudaFree(0));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&spin, module, "spin_ns"));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    for (int round = 0; round < 5; round++) {
        CUdeviceptr pointer = allocate(count * 4);
        volatile uint32_t *memory = (volatile uint32_t *)(uintptr_t)pointer;
        for (uint64_t i = 0; i < count; i++)
            memory[i] = 1;
        for (volatile int pause = 0; pause < 1000000; pause++) {
        }
        for (uint64_t i = 0; i < count; i++)
            wrong += memory[i] != 1;
        CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&busy}, NULL));
        CHECK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&pointer, &count, &seven},
                             NULL));
        release(pointer);
    }
    printf("wrong %d\n", wrong);
}

static void freed(void) {
    CUdeviceptr pointer = allocate(BYTES);
    size_t size = BYTES;
    int answer;
    release(pointer);
    printf("advice %d, prefetch %d, attachment %d, discard %d, question %d, free %d\n",
           cuMemAdvise(pointer, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
           cuMemPrefetchAsync(pointer, BYTES, 0, NULL),
           cuStreamAttachMemAsync(NULL, pointer, 0, CU_MEM_ATTACH_HOST),
           cuMemDiscardBatchAsync(&pointer, &size, 1, 0, CU_STREAM_PER_THREAD),
           cuMemRangeGetAttribute(&answer, sizeof answer, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                  pointer, BYTES),
           cuMemFree_v2(pointer));
}

/* Beside device memory that was freed. */
static void after_device(void) {
    void *memory;
    CHECK(cudaMalloc(&memory, BYTES));
    CHECK(cudaFree(memory));
    printf("%d, ", (int)cudaMallocManaged(&memory, BYTES, cudaMemAttachGlobal));
    printf("last error %d\n", (int)cudaGetLastError());
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"loop", loop},           {"said", said},   {"discarded", discarded},      {"parts", parts},
        {"first_use", first_use}, {"freed", freed}, {"after_device", after_device}};
    REQUIRE(argc == 2);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    REQUIRE(!"a case of that name");
}
