/* A kernel faults while nothing is called. The call named by the argument is the first to say so;
 * then every call does, natively: also those that the pool could answer by itself. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <string.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { BYTES = 70000 };

static CUdeviceptr block, other;
static CUstream stream;
static CUevent event;
static CUmodule module;
static CUfunction fault;
static CUdevice device;
static int value;
static size_t size;

#define CALLS(X)                                                                                   \
    X(cuMemsetD8Async, (block, 1, 8, NULL))                                                        \
    X(cuMemsetD8_v2, (block, 1, 8))                                                                \
    X(cuMemcpyDtoDAsync_v2, (block, other, 8, NULL))                                               \
    X(cuEventRecord, (event, NULL))                                                                \
    X(cuStreamWaitEvent, (NULL, event, 0))                                                         \
    X(cuStreamQuery, (NULL))                                                                       \
    X(cuStreamIsCapturing, (NULL, (CUstreamCaptureStatus *)&value))                                \
    X(cuStreamGetPriority, (NULL, &value))                                                         \
    X(cuStreamGetFlags, (NULL, (unsigned int *)&value))                                            \
    X(cuCtxGetLimit, (&size, CU_LIMIT_STACK_SIZE))                                                 \
    X(cuCtxSetLimit, (CU_LIMIT_STACK_SIZE, 1024))                                                  \
    X(cuCtxGetStreamPriorityRange, (&value, &value))                                               \
    X(cuCtxSynchronize, ())                                                                        \
    X(cuModuleGetFunction, (&fault, module, "fault"))                                              \
    X(cuMemGetInfo_v2, (&size, &size))                                                             \
    X(cuMemHostAlloc, ((void **)&size, 8, 0))                                                      \
    X(cuMemAllocManaged, ((CUdeviceptr *)&size, 8, CU_MEM_ATTACH_GLOBAL))                          \
    X(cuMemAllocAsync, ((CUdeviceptr *)&size, 8, stream))                                          \
    X(cuMemFreeAsync, (other, stream))                                                             \
    X(cuPointerSetAttribute, (&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, other))

#define DEFINE(name, arguments)                                                                    \
    static CUresult call_##name(void) {                                                            \
        return name arguments;                                                                     \
    }
CALLS(DEFINE)

static const struct {
    const char *name;
    CUresult (*call)(void);
} calls[] = {
#define ENTRY(name, arguments) {#name, call_##name},
    CALLS(ENTRY)
#undef ENTRY
};

/* With an idle block of that size, if there is a pool, and no wait that would find the error. */
static void start(void) {
    CUdeviceptr pointer;
    CUcontext primary;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, device));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fault, module, "fault"));
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc_v2(&block, BYTES));
    CHECK(cuMemAlloc_v2(&other, BYTES));
    for (int i = 0; i < 3; i++) {
        CHECK(cuMemAlloc_v2(&pointer, BYTES));
        CHECK(cuMemFree_v2(pointer));
    }
    CHECK(cuCtxSynchronize());
}

int main(int argc, char **argv) {
    CUdeviceptr pointer;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (argc < 2) {
            puts(calls[i].name);
            continue;
        }
        if (strcmp(calls[i].name, argv[1]) != 0)
            continue;
        CUresult result = CUDA_SUCCESS;
        start();
        CHECK(cuLaunchKernel(fault, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
        /* Before the fault: a query is not ready, and what is freed cannot be freed again. */
        while (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY ||
               result == CUDA_ERROR_INVALID_VALUE) {
            usleep(1000);
            result = calls[i].call();
        }
        printf("%s: %d\n", argv[1], (int)result);
        printf("cuMemAlloc_v2: %d\n", (int)cuMemAlloc_v2(&pointer, BYTES));
        printf("cuMemFree_v2: %d\n", (int)cuMemFree_v2(block));
    }
    return 0;
}
