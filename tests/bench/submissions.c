/* submissions TIMES CALL STREAMS [null]: makes a call that submits work so often, one of those
 * below. The work goes to so many streams of the program's own in turn, with `null` to the null
 * stream beside these. Launches have 4 arguments, which are addresses of device memory. Under
 * callgrind the calls after a warm-up are collected. Prints "operations" and their number. */
#include "null_driver.h"

#include "driver/cuda_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CALLGRIND
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

enum { WARM_UP = 100, ARGUMENTS = 4, STREAMS = 16 };

static struct null_driver_function function = {ARGUMENTS, sizeof(CUdeviceptr)};
static CUdeviceptr block;
static void *arguments[ARGUMENTS];
static CUevent event;

static CUresult launch(CUstream stream) {
    return cuLaunchKernel((CUfunction)&function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static CUresult launch_ex(CUstream stream) {
    const CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, NULL, 0};
    return cuLaunchKernelEx(&config, (CUfunction)&function, arguments, NULL);
}

static CUresult copy(CUstream stream) {
    return cuMemcpyHtoDAsync_v2(block, arguments, sizeof arguments, stream);
}

static CUresult set(CUstream stream) {
    return cuMemsetD8Async(block, 0, 1, stream);
}

static CUresult set_2d(CUstream stream) {
    return cuMemsetD2D8Async(block, 512, 0, 1, 1, stream);
}

static CUresult set_default(CUstream stream) {
    (void)stream;
    return cuMemsetD8_v2(block, 0, 1);
}

static CUresult wait(CUstream stream) {
    return cuStreamWaitEvent(stream, event, 0);
}

/* As compiled for per-thread default streams. */
CUresult cuLaunchKernel_ptsz(CUfunction called, unsigned int grid_x, unsigned int grid_y,
                             unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                             unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                             void **given, void **extra);
CUresult cuMemsetD8Async_ptsz(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);

static CUresult launch_ptsz(CUstream stream) {
    return cuLaunchKernel_ptsz((CUfunction)&function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static CUresult set_ptsz(CUstream stream) {
    return cuMemsetD8Async_ptsz(block, 0, 1, stream);
}

static CUresult record(CUstream stream) {
    return cuEventRecord(event, stream);
}

static const struct call {
    const char *name;
    CUresult (*make)(CUstream stream);
} calls[] = {{"launch", launch},    {"launch_ex", launch_ex}, {"copy", copy},
             {"set", set},          {"set_2d", set_2d},       {"set_default", set_default},
             {"wait", wait},        {"record", record},       {"launch_ptsz", launch_ptsz},
             {"set_ptsz", set_ptsz}};

static const struct call *find_call(const char *name) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(calls[i].name, name) == 0)
            return &calls[i];
    exit(2);
}

static void make(const struct call *call, const CUstream *streams, long count, long times) {
    for (long i = 0; i < times; i++)
        if (call->make(streams[i % count]) != CUDA_SUCCESS)
            exit(1);
}

int main(int argc, char **argv) {
    CUstream streams[STREAMS] = {NULL};
    if (argc < 4 || cuInit(0) != CUDA_SUCCESS || cuMemAlloc_v2(&block, 4096) != CUDA_SUCCESS ||
        cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return 2;
    long times = strtol(argv[1], NULL, 10), count = strtol(argv[3], NULL, 10);
    const struct call *call = find_call(argv[2]);
    for (size_t i = 0; i < ARGUMENTS; i++)
        arguments[i] = &block;
    for (long i = 0; i < count && i < STREAMS; i++)
        if (cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
            return 2;
    if (argc > 4 || !count) {
        streams[0] = NULL;
        count = 1;
    }
    make(call, streams, count, WARM_UP);
    CALLGRIND_START_INSTRUMENTATION;
    make(call, streams, count, times);
    CALLGRIND_STOP_INSTRUMENTATION;
    printf("operations %ld\n", times);
    return 0;
}
