/* A device whose memory is short, and what an allocation makes of that. The first argument names
 * the case; sizes are shares of the device, which has 4 GiB or less:
 *
 *   larger      3/4 of the device is freed in one block, a kernel begins that waits for the host,
 *               and 3/10 are allocated
 *   pieces      the same, but freed in three blocks, none of which is large enough; the kernel is
 *               let go on once the second argument's milliseconds have gone by, 0: after the
 *               allocation
 *   object      all of the device is freed, that kernel begins, and an event is made
 *   impossible  what can never be had is asked for while that kernel runs, and what was freed again
 *   too_much    more is asked for than is left beside what is live
 *   beyond      more is asked for, by 8 MiB, than is free, while blocks are idle that do not fill
 *               their pages and that kernel runs
 *   loop        the share of the device that the second argument says, in percent, is live; in a
 *               loop three temporaries of different sizes are allocated and freed, two at a time
 *   phases      in each of three phases blocks of a size of its own are allocated and freed
 *   elsewhere   one context's memory fills the device and is freed, and another one allocates,
 * which has a block that does not fill its pages hold        that share is allocated past the pool;
 * ends with its input
 *
 * Prints the results of the driver. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((int)(call) == 0)

enum { MIB = 1 << 20 };

static CUfunction wait_flag;
static volatile unsigned int *flag;
static size_t total;

static void start(void) {
    CUcontext context;
    CUmodule module;
    size_t available;
    void *memory;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&wait_flag, module, "wait_flag"));
    CHECK(cuMemHostAlloc(&memory, sizeof *flag, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemGetInfo_v2(&available, &total));
    flag = memory;
}

static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr block;
    CHECK(cuMemAlloc_v2(&block, bytes));
    return block;
}

static void begin_kernel(void) {
    CUdeviceptr at;
    CHECK(cuMemHostGetDevicePointer_v2(&at, (void *)flag, 0));
    void *arguments[] = {&at};
    *flag = 0;
    CHECK(cuLaunchKernel(wait_flag, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
}

static void end_kernel(void) {
    *flag = 1;
    CHECK(cuCtxSynchronize());
}

static int try_allocate(size_t bytes) {
    CUdeviceptr block;
    return (int)cuMemAlloc_v2(&block, bytes);
}

static void larger(const char *argument) {
    (void)argument;
    CHECK(cuMemFree_v2(allocate(total / 4 * 3)));
    begin_kernel();
    printf("larger: %d\n", try_allocate(total / 10 * 3));
    end_kernel();
}

static void *let_go(void *milliseconds) {
    usleep((useconds_t)atoi(milliseconds) * 1000);
    *flag = 1;
    return NULL;
}

static void pieces(const char *argument) {
    static char milliseconds[16];
    CUdeviceptr blocks[3];
    pthread_t helper;
    bool helped = strcmp(argument, "0") != 0;
    for (int i = 0; i < 3; i++)
        blocks[i] = allocate(total / 4);
    for (int i = 0; i < 3; i++)
        CHECK(cuMemFree_v2(blocks[i]));
    begin_kernel();
    strncpy(milliseconds, argument, sizeof milliseconds - 1);
    if (helped)
        CHECK(pthread_create(&helper, NULL, let_go, milliseconds));
    printf("pieces: %d\n", try_allocate(total / 10 * 3));
    if (helped)
        CHECK(pthread_join(helper, NULL));
    end_kernel();
    printf("afterwards: %d\n", try_allocate(total / 10 * 3));
}

static void object(const char *argument) {
    (void)argument;
    CUdeviceptr blocks[1024];
    CUevent event;
    int count = 0;
    while (count < 1024 && cuMemAlloc_v2(&blocks[count], 16 * MIB) == CUDA_SUCCESS)
        count++;
    while (count > 0)
        CHECK(cuMemFree_v2(blocks[--count]));
    begin_kernel();
    printf("object: %d\n", (int)cuEventCreate(&event, 0));
    end_kernel();
    printf("afterwards: %d\n", (int)cuEventCreate(&event, 0));
}

static void impossible(const char *argument) {
    (void)argument;
    CUdeviceptr kept = allocate(MIB), block = allocate(total / 2);
    CHECK(cuMemFree_v2(block));
    begin_kernel();
    printf("impossible: %d %d\n", try_allocate((size_t)1 << 45), try_allocate(total / 4 * 5));
    printf("again: %d\n", try_allocate(total / 2));
    end_kernel();
    CHECK(cuMemFree_v2(kept));
}

static void too_much(const char *argument) {
    (void)argument;
    CUdeviceptr kept = allocate(total / 4), block = allocate(total / 2);
    CHECK(cuMemFree_v2(block));
    begin_kernel();
    printf("too much: %d\n", try_allocate(total / 10 * 9));
    printf("again: %d\n", try_allocate(total / 2));
    end_kernel();
    CHECK(cuMemFree_v2(kept));
}

static void beyond(const char *argument) {
    (void)argument;
    enum { BLOCKS = 10, FREED = 7 };
    CUdeviceptr blocks[BLOCKS];
    size_t available;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = allocate((size_t)10 * MIB + (size_t)i * 100000);
    for (int i = 0; i < FREED; i++)
        CHECK(cuMemFree_v2(blocks[i]));
    begin_kernel();
    CHECK(cuMemGetInfo_v2(&available, &total));
    printf("beyond: %d\n", try_allocate(available + 8 * MIB));
    end_kernel();
}

static void loop(const char *argument) {
    static const size_t sizes[] = {2 * MIB, 6 * MIB, 14 * MIB};
    size_t share = total / 100 * (size_t)atoi(argument);
    CUdeviceptr kept = share ? allocate(share) : 0, before = 0;
    for (int i = 0; i < 3 * ROUNDS; i++) {
        CUdeviceptr block = allocate(sizes[i % 3]);
        if (before)
            CHECK(cuMemFree_v2(before));
        before = block;
    }
    CHECK(cuMemFree_v2(before));
    if (kept)
        CHECK(cuMemFree_v2(kept));
    printf("looped\n");
}

static void phases(const char *argument) {
    (void)argument;
    for (size_t size = 64 * MIB; size <= 1024 * MIB; size *= 4)
        for (int i = 0; i < ROUNDS; i++)
            CHECK(cuMemFree_v2(allocate(size)));
    printf("phases\n");
}

static void elsewhere(const char *argument) {
    (void)argument;
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    const size_t odd = 2 * MIB + 512; /* of two pages of 2 MiB */
    CUdeviceptr blocks[1024];
    CUcontext first, other;
    int count = 0;
    CHECK(cuCtxGetCurrent(&first));
    CHECK(create(&other, 0, 0));
    CUdeviceptr kept = allocate(odd);
    CHECK(cuCtxSetCurrent(first));
    while (count < 1024 && cuMemAlloc_v2(&blocks[count], odd) == CUDA_SUCCESS)
        count++;
    while (count > 0)
        CHECK(cuMemFree_v2(blocks[--count]));
    CHECK(cuCtxSetCurrent(other));
    printf("elsewhere: %d\n", try_allocate(MIB));
    CHECK(cuMemFree_v2(kept));
}

static void hold(const char *argument) {
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    size_t unit = 2 * MIB, bytes = total / 100 * (size_t)atoi(argument) / unit * unit;
    CHECK(cuMemCreate(&handle, bytes, &properties, 0));
    printf("held\n");
    fflush(stdout);
    (void)getchar();
}

static const struct {
    const char *name;
    void (*run)(const char *argument);
} cases[] = {
    {"larger", larger},         {"pieces", pieces},       {"object", object}, {"hold", hold},
    {"impossible", impossible}, {"too_much", too_much},   {"beyond", beyond}, {"loop", loop},
    {"phases", phases},         {"elsewhere", elsewhere},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc >= 2 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0)
            continue;
        start();
        cases[i].run(argc > 2 ? argv[2] : "0");
        return 0;
    }
    REQUIRE(!"a case of that name");
}
