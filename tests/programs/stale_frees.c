/* Addresses of pinned or managed memory that has gone are freed once more. With POOLCUDA_CHECK the
 * driver has by then given some of them to the check, which natively is not there. The argument
 * says what the memory was: pinned, managed, or pinned memory of a context that has ended. With a
 * second argument there is a write beyond a block in the end. */
#include "../../samples/kernels.h"
#include "driver/cuda_api.h"
#include "program.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
/* Each is one page, and together they leave a gap for memory that the driver takes later. */
enum { BLOCKS = 256, BYTES = 1000, WORDS = BYTES / 4 };

static CUdeviceptr stale[BLOCKS];
static CUfunction fill;

static void allocate_all(bool managed, size_t page) {
    for (int i = 0; i < BLOCKS; i++) {
        void *host = NULL;
        if (managed)
            CHECK(cuMemAllocManaged(&stale[i], page, CU_MEM_ATTACH_GLOBAL));
        else
            CHECK(cuMemHostAlloc(&host, page, 0));
        if (!managed)
            stale[i] = (CUdeviceptr)(uintptr_t)host;
    }
}

static CUresult free_host(CUdeviceptr pointer) {
    return cuMemFreeHost((void *)(uintptr_t)pointer);
}

static CUresult free_in_stream(CUdeviceptr pointer) {
    return cuMemFreeAsync(pointer, NULL);
}

static CUresult unregister(CUdeviceptr pointer) {
    return cuMemHostUnregister((void *)(uintptr_t)pointer);
}

static CUresult ask_where(CUdeviceptr pointer) {
    CUdeviceptr base;
    return cuMemGetAddressRange_v2(&base, NULL, pointer);
}

static CUresult ask_what(CUdeviceptr pointer) {
    unsigned int type;
    return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer);
}

static CUresult ask_flags(CUdeviceptr pointer) {
    unsigned int flags;
    return cuMemHostGetFlags(&flags, (void *)(uintptr_t)pointer);
}

static void make_stale(const char *what, size_t page) {
    CUcontext other = NULL;
    bool managed = strcmp(what, "managed") == 0, ended = strcmp(what, "ended") == 0;
    if (ended)
        CHECK(cuCtxCreate_v2(&other, 0, 0));
    allocate_all(managed, page);
    for (int i = 0; i < BLOCKS && !ended; i++)
        CHECK(managed ? cuMemFree_v2(stale[i]) : free_host(stale[i]));
    if (ended)
        CHECK(cuCtxDestroy_v2(other));
}

/* The check begins at the first block. */
static void write_words(unsigned words) {
    CUdeviceptr block;
    uint64_t count = words;
    uint32_t value = 7;
    CHECK(cuMemAlloc_v2(&block, BYTES));
    void *parameters[] = {&block, &count, &value};
    CHECK(cuLaunchKernel(fill, 4, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
    CHECK(cuMemFree_v2(block));
    CHECK(cuCtxSynchronize());
}

static void tell(const char *name, CUresult (*call)(CUdeviceptr)) {
    CUresult first = call(stale[0]);
    unsigned others = 0;
    for (int i = 0; i < BLOCKS; i++)
        others += call(stale[i]) != first;
    printf("%s: %d, and %u other answers\n", name, (int)first, others);
}

int main(int argc, char **argv) {
    CUcontext context;
    CUmodule module;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    REQUIRE(argc == 2 || argc == 3);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    make_stale(argv[1], page);
    write_words(WORDS);
    tell("cuMemGetAddressRange", ask_where);
    tell("cuPointerGetAttribute", ask_what);
    tell("cuMemHostGetFlags", ask_flags);
    tell("cuMemHostUnregister", unregister);
    tell("cuMemFree", cuMemFree_v2);
    tell("cuMemFreeAsync", free_in_stream);
    tell("cuMemFreeHost", free_host);
    for (int i = 0; i < ROUNDS; i++)
        write_words(WORDS);
    if (argc == 3)
        write_words(WORDS + 1);
    return 0;
}
