/* A library whose constructor has a thread allocate and free, and waits for it: the loader's lock
 * is held meanwhile. With RUNTIME through the runtime, which the program has started. */
#include "program.h"

#include <pthread.h>

#ifdef RUNTIME
#include <cuda_runtime_api.h>

static void *work(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        void *pointer;
        REQUIRE(cudaMalloc(&pointer, 4096) == cudaSuccess);
        REQUIRE(cudaMemset(pointer, 1, 4096) == cudaSuccess);
        REQUIRE(cudaFree(pointer) == cudaSuccess);
    }
    return unused;
}
#else
#include "driver/cuda_api.h"

static void *work(void *unused) {
    CUcontext context;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    for (int i = 0; i < ROUNDS; i++) {
        CUdeviceptr pointer;
        REQUIRE(cuMemAlloc_v2(&pointer, 4096) == CUDA_SUCCESS);
        REQUIRE(cuMemsetD8_v2(pointer, 1, 4096) == CUDA_SUCCESS);
        REQUIRE(cuMemFree_v2(pointer) == CUDA_SUCCESS);
        REQUIRE(cuMemHostAlloc((void **)&pointer, 4096, 0) == CUDA_SUCCESS);
        REQUIRE(cuMemFreeHost((void *)pointer) == CUDA_SUCCESS);
    }
    return unused;
}
#endif

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    puts("constructed");
}
