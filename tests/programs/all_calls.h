/* One round of what CUDA programs do, each call between before() and after(what it was, its
 * result): look-ups, allocations of all kinds that are served and not, frees that owe and wait,
 * submissions, captures, questions, contexts that end, refusals. */
#ifndef TESTS_ALL_CALLS_H
#define TESTS_ALL_CALLS_H

#include "driver/cuda_api.h"
#include "program.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>

struct calls_guest {
    void (*before)(void);
    void (*after)(const char *call, int result);
};

#define MAKE(call)                                                                                 \
    do {                                                                                           \
        guest->before();                                                                           \
        int result_ = (int)(call);                                                                 \
        guest->after(#call, result_);                                                              \
    } while (0)

static inline void calls_make_first(const struct calls_guest *guest) {
    void *function = NULL;
    CUcontext context;
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    REQUIRE(handle);
    MAKE(cuInit(0));
    MAKE(cuDevicePrimaryCtxRetain(&context, 0));
    MAKE(cuCtxSetCurrent(context));
    MAKE(cuGetProcAddress_v2("cuMemAlloc", &function, 12000, 0, NULL));
    MAKE(cuGetProcAddress_v2("cuNothingOfTheKind", &function, 12000, 0, NULL));
}

static inline void calls_make_memory(const struct calls_guest *guest, size_t bytes) {
    void *one, *two, *host, *managed, *odd, *queued;
    size_t pitch, available, all;
    CUdeviceptr plain;
    MAKE(cudaMalloc(&one, bytes));
    MAKE(cudaMalloc(&two, bytes));
    MAKE(cuMemAlloc_v2(&plain, bytes));
    MAKE(cudaMallocPitch(&odd, &pitch, 100, bytes / 100));
    MAKE(cudaMallocHost(&host, bytes));
    MAKE(cudaMallocManaged(&managed, bytes, cudaMemAttachGlobal));
    MAKE(cudaMallocAsync(&queued, bytes, NULL));
    MAKE(cuMemsetD8Async((CUdeviceptr)(uintptr_t)one, 1, bytes, NULL));
    MAKE(cudaMemcpyAsync(host, one, bytes, cudaMemcpyDeviceToHost, NULL));
    MAKE(cudaFree(one));
    MAKE(cuMemsetD8Async((CUdeviceptr)(uintptr_t)two, 1, bytes, NULL));
    MAKE(cudaFree(two));
    MAKE(cuMemFree_v2(plain));
    MAKE(cudaFree(odd));
    MAKE(cudaFreeHost(host));
    MAKE(cudaFree(managed));
    MAKE(cudaFreeAsync(queued, NULL));
    MAKE(cudaMemGetInfo(&available, &all));
    MAKE(cudaFree((void *)12345));
    MAKE(cudaMalloc(&one, SIZE_MAX / 4));
    MAKE(cudaGetLastError());
    MAKE(cudaDeviceSynchronize());
}

static inline void calls_make_streams(const struct calls_guest *guest, size_t bytes) {
    CUstream stream, other;
    CUevent event;
    CUgraph graph;
    CUdeviceptr pointer;
    MAKE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MAKE(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    MAKE(cuEventCreate(&event, 0));
    MAKE(cuMemAlloc_v2(&pointer, bytes));
    MAKE(cuMemsetD8Async(pointer, 2, bytes, stream));
    MAKE(cuMemFree_v2(pointer));
    MAKE(cuMemsetD8Async(pointer, 2, 0, other));
    MAKE(cuEventRecord(event, stream));
    MAKE(cuStreamWaitEvent(other, event, 0));
    MAKE(cuStreamQuery(other));
    MAKE(cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    MAKE(cuMemAlloc_v2(&pointer, bytes));
    MAKE(cuMemFree_v2(pointer));
    MAKE(cuStreamEndCapture(other, &graph));
    MAKE(cuGraphDestroy(graph));
    MAKE(cuEventSynchronize(event));
    MAKE(cuStreamSynchronize(stream));
    MAKE(cuStreamDestroy_v2(stream));
    MAKE(cuStreamDestroy_v2(other));
    MAKE(cuEventDestroy_v2(event));
}

static inline void calls_make_contexts(const struct calls_guest *guest, size_t bytes) {
    CUcontext context;
    CUdeviceptr pointer;
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    MAKE(create(&context, 0, 0));
    MAKE(cuMemAlloc_v2(&pointer, bytes));
    MAKE(cuMemFree_v2(pointer));
    MAKE(cuMemAlloc_v2(&pointer, bytes));
    MAKE(cuCtxDestroy_v2(context));
}

/* As often as it takes until sites are known, caches are there and frees owe. */
static inline void calls_make_all(const struct calls_guest *guest) {
    for (size_t round = 0; round < ROUNDS; round++)
        calls_make_memory(guest, round % 4 == 3 ? 1000 * round : 3000);
    for (size_t round = 0; round < ROUNDS / 4; round++)
        calls_make_streams(guest, 70000);
    for (size_t round = 0; round < 3; round++)
        calls_make_contexts(guest, 50000);
    MAKE(cudaDeviceReset());
}

#endif
