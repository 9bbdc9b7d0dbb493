/* Prints what CUDA answers in the cases that programs rely on: errors, information, ended contexts,
 * captures. Natively and under the pool the lines are the same. */
#include "driver/cuda_api.h"
#include "program.h"

#include <cuda_runtime_api.h>

#define TELL(call) printf("%s: %d\n", #call, (int)(call))

static void errors(void) {
    void *pointer, *other;
    CUdeviceptr driver_pointer = 0;
    size_t total, available;
    TELL(cudaMalloc(&pointer, 0));
    TELL(cuMemAlloc_v2(&driver_pointer, 0));
    TELL(cuMemFree_v2(0));
    TELL(cudaFree(NULL));
    TELL(cudaMalloc(&pointer, 1000));
    TELL(cudaFree((char *)pointer + 256));
    TELL(cudaGetLastError());
    TELL(cudaFree(pointer));
    TELL(cudaFree(pointer));
    TELL(cudaGetLastError());
    TELL(cudaFreeAsync(pointer, 0)); /* a third time, in the other way */
    TELL(cudaGetLastError());
    TELL(cudaFree((void *)0x123456));
    TELL(cudaGetLastError());
    TELL(cudaMemGetInfo(&available, &total));
    TELL(cudaMalloc(&other, total * 2));
    TELL(cudaPeekAtLastError());
    TELL(cudaGetLastError());
    TELL(cudaMalloc(&other, (size_t)-1));
    TELL(cudaGetLastError());
    TELL(cudaMalloc(&other, (size_t)-4096));
    TELL(cudaGetLastError());
}

static void attributes_of(void *pointer) {
    struct cudaPointerAttributes attributes = {.type = cudaMemoryTypeHost};
    TELL(cudaPointerGetAttributes(&attributes, pointer));
    TELL(cudaGetLastError());
    printf("type %d device %d\n", (int)attributes.type, attributes.device);
}

static void information(void) {
    void *pointer;
    size_t before, after, total;
    CUdeviceptr base;
    size_t range;
    TELL(cudaMemGetInfo(&before, &total));
    TELL(cudaMalloc(&pointer, 64 << 20));
    TELL(cudaMemGetInfo(&after, &total));
    printf("taken %zu\n", before - after);
    TELL(cuMemGetAddressRange_v2(&base, &range, (CUdeviceptr)pointer + 1000));
    printf("range from %zd, %zu bytes\n", (ssize_t)(base - (CUdeviceptr)pointer), range);
    attributes_of((char *)pointer + 1000);
    CUdeviceptr freed = (CUdeviceptr)pointer;
    TELL(cudaFree(pointer));
    attributes_of((char *)freed + 1000);
    TELL(cudaMemGetInfo(&after, &total));
    printf("taken %zu\n", before - after);
    TELL(cuMemGetAddressRange_v2(&base, &range, freed));
    TELL(cudaMalloc(&pointer, 1000001));
    TELL(cuMemGetAddressRange_v2(&base, &range, (CUdeviceptr)pointer));
    printf("range %zu bytes\n", range);
    TELL(cudaFree(pointer));
}

static void contexts(void) {
    CUcontext context, other;
    CUdeviceptr kept, freed;
    void *pointer;
    TELL(cuDevicePrimaryCtxRetain(&context, 0));
    TELL(cuCtxSetCurrent(context));
    TELL(cuMemAlloc_v2(&kept, 5000));
    TELL(cuMemAlloc_v2(&freed, 5000));
    TELL(cuMemFree_v2(freed));
    TELL(cuDevicePrimaryCtxReset(0));
    TELL(cudaFree((void *)kept));
    cudaGetLastError();
    TELL(cudaDeviceReset());
    TELL(cudaMalloc(&pointer, 5000));
    TELL(cudaMemset(pointer, 1, 5000));
    TELL(cudaFree(pointer));
    TELL(cudaDeviceReset());
    TELL(cudaMalloc(&pointer, 5000));
    TELL(cudaFree(pointer));
    CUresult (*create)(CUcontext *, unsigned int, CUdevice) = cuCtxCreate_v2;
    TELL(create(&other, 0, 0));
    TELL(cuMemAlloc_v2(&kept, 5000));
    TELL(cuMemAlloc_v2(&freed, 5000));
    TELL(cuMemFree_v2(freed));
    TELL(cuCtxDestroy_v2(other));
    TELL(cuCtxSetCurrent(NULL));
    TELL(cuMemAlloc_v2(&freed, 5000));
    TELL(cuMemFree_v2(kept)); /* before anything can have been given its address */
    TELL(cudaMalloc(&pointer, 5000));
    TELL(cudaFree(pointer));
}

static void captures(void) {
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    for (int i = 0; i < 3; i++) {
        cudaStream_t stream;
        cudaGraph_t graph = NULL;
        cudaGraphExec_t executable = NULL;
        void *before = NULL, *during = NULL;
        unsigned char byte = 0;
        printf("capture mode %d\n", (int)modes[i]);
        TELL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        TELL(cudaMalloc(&before, 3000));
        TELL(cudaStreamBeginCapture(stream, modes[i]));
        TELL(cudaMemsetAsync(before, 5, 3000, stream));
        TELL(cudaMalloc(&during, 3000));
        if (during)
            TELL(cudaFree(during));
        TELL(cudaStreamEndCapture(stream, &graph));
        printf("graph %d\n", graph != NULL);
        cudaGetLastError();
        if (graph) {
            TELL(cudaGraphInstantiate(&executable, graph, 0));
            TELL(cudaGraphLaunch(executable, stream));
            TELL(cudaStreamSynchronize(stream));
            TELL(cudaMemcpy(&byte, before, 1, cudaMemcpyDeviceToHost));
            printf("byte %d\n", byte);
            TELL(cudaGraphExecDestroy(executable));
            TELL(cudaGraphDestroy(graph));
        }
        TELL(cudaStreamDestroy(stream));
        TELL(cudaFree(before));
        cudaGetLastError();
    }
}

int main(void) {
    errors();
    information();
    captures();
    contexts();
    return 0;
}
