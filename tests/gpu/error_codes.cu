// Every result that programs may get from allocating and freeing wrongly, through the runtime and
// through the driver, and what is known of blocks that are live, freed, or of a context that ended.
#include "gpu_program.cuh"

#include <cuda.h>

static void runtime_code(const char *what, cudaError_t code) {
    cudaError_t last = cudaGetLastError();
    result("%s: %s, last error %s", what, cudaGetErrorName(code), cudaGetErrorName(last));
}

static void driver_code(const char *what, CUresult code) {
    const char *name = "unknown";
    cuGetErrorName(code, &name);
    result("%s: %s", what, name);
}

static void *allocate(size_t bytes) {
    void *block;
    CUDA_OK(cudaMalloc(&block, bytes));
    return block;
}

static void describe(const char *what, void *pointer) {
    cudaPointerAttributes attributes;
    cudaError_t code = cudaPointerGetAttributes(&attributes, pointer);
    result("%s: attributes %s, type %d", what, cudaGetErrorName(code),
           code == cudaSuccess ? (int)attributes.type : -1);
    cudaGetLastError();
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult driver = cuMemGetAddressRange(&base, &bytes, (CUdeviceptr)pointer);
    if (driver == CUDA_SUCCESS) {
        result("%s: address range offset %lld, %zu bytes", what,
               (long long)((CUdeviceptr)pointer - base), bytes);
    } else {
        driver_code(what, driver);
    }
    size_t range = 0;
    driver = cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (CUdeviceptr)pointer);
    result("%s: RANGE_SIZE code %d, %zu bytes", what, (int)driver,
           driver == CUDA_SUCCESS ? range : (size_t)0);
}

static void frees(size_t bytes) {
    char label[64];
    void *block = allocate(bytes);
    CUDA_OK(cudaFree(block));
    snprintf(label, sizeof label, "second free, %zu bytes", bytes);
    runtime_code(label, cudaFree(block));
    block = allocate(bytes);
    snprintf(label, sizeof label, "interior free, %zu bytes", bytes);
    runtime_code(label, cudaFree((char *)block + 32));
    snprintf(label, sizeof label, "then the right one, %zu bytes", bytes);
    runtime_code(label, cudaFree(block));
    block = allocate(bytes);
    CUDA_OK(cudaFree(block));
    snprintf(label, sizeof label, "driver's second free, %zu bytes", bytes);
    driver_code(label, cuMemFree((CUdeviceptr)block));

    for (size_t request : {bytes, bytes - 100}) { // the second one may be a larger, reused block
        block = allocate(request);
        snprintf(label, sizeof label, "live, %zu bytes", request);
        describe(label, block);
        snprintf(label, sizeof label, "interior of live, %zu bytes", request);
        describe(label, (char *)block + 100);
        CUDA_OK(cudaFree(block));
        snprintf(label, sizeof label, "freed, %zu bytes", request);
        describe(label, block);
    }
}

int main() {
    double start = seconds_now();
    void *pointer = (void *)1;
    runtime_code("cudaMalloc(0)", cudaMalloc(&pointer, 0));
    result("cudaMalloc(0) pointer: %s",
           pointer == nullptr ? "null" : (pointer == (void *)1 ? "unchanged" : "set"));
    runtime_code("cudaMalloc(null, 64)", cudaMalloc((void **)nullptr, 64));
    runtime_code("cudaFree(0)", cudaFree(nullptr));
    runtime_code("cudaFreeHost(0)", cudaFreeHost(nullptr));
    CUdeviceptr address = 1;
    driver_code("cuMemAlloc(0)", cuMemAlloc(&address, 0));
    driver_code("cuMemFree(0)", cuMemFree(0));
    size_t pitch = 1;
    runtime_code("cudaMallocPitch(0, 4)", cudaMallocPitch(&pointer, &pitch, 0, 4));
    driver_code("cuMemAllocPitch(element 5)", cuMemAllocPitch(&address, &pitch, 100, 4, 5));

    frees(4096);
    frees(1 << 20);
    frees(8 << 20);

    int on_stack = 0;
    runtime_code("free of a host pointer", cudaFree(&on_stack));
    runtime_code("free of an unknown address", cudaFree((void *)0x1234500));
    void *pinned;
    CUDA_OK(cudaMallocHost(&pinned, 4096));
    runtime_code("cudaFree of pinned memory", cudaFree(pinned));
    runtime_code("cudaFreeHost of it", cudaFreeHost(pinned));
    void *device_block = allocate(4096);
    runtime_code("cudaFreeHost of device memory", cudaFreeHost(device_block));
    runtime_code("cudaFree of it", cudaFree(device_block));

    size_t free_bytes, total;
    CUDA_OK(cudaMemGetInfo(&free_bytes, &total));
    runtime_code("more than the device has", cudaMalloc(&pointer, total * 2));
    runtime_code("absurdly much", cudaMalloc(&pointer, SIZE_MAX / 2));
    runtime_code("all bits set", cudaMalloc(&pointer, SIZE_MAX));

    // A context that is destroyed while current to nobody, then while current.
    CUcontext primary, second;
    CUdevice device;
    CUDA_OK(cudaFree(nullptr));
    cuCtxGetCurrent(&primary);
    cuCtxGetDevice(&device);
#if CUDA_VERSION >= 13000
    driver_code("cuCtxCreate", cuCtxCreate(&second, nullptr, 0, device));
#else
    driver_code("cuCtxCreate", cuCtxCreate(&second, 0, device));
#endif
    driver_code("cuMemAlloc in it", cuMemAlloc(&address, 1 << 20));
    CUcontext popped;
    cuCtxPopCurrent(&popped);
    driver_code("cuCtxDestroy", cuCtxDestroy(second));
    driver_code("free of its block", cuMemFree(address));
    cuCtxSetCurrent(nullptr);
    CUdeviceptr none = 0;
    driver_code("cuMemAlloc without a context", cuMemAlloc(&none, 4096));
    driver_code("cuMemFree without a context", cuMemFree(address));
    cuCtxSetCurrent(primary);

    // After a reset of the primary context its memory is gone, and a new block works.
    void *before_reset = allocate(1 << 20), *idle = allocate(1 << 20);
    CUDA_OK(cudaFree(idle));
    runtime_code("cudaDeviceReset", cudaDeviceReset());
    runtime_code("free of a block from before the reset", cudaFree(before_reset));
    runtime_code("free of a block freed before the reset", cudaFree(idle));
    uint32_t *after = (uint32_t *)allocate(1 << 20);
    fill<<<GRID, THREADS>>>(after, 1 << 18, 3);
    CUDA_OK(cudaGetLastError());
    result("after the reset %016llx",
           (unsigned long long)hash_device(HASH_START, after, (size_t)1 << 20));
    CUDA_OK(cudaFree(after));
    time_line("loop", seconds_now() - start);
    return 0;
}
