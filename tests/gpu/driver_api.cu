// The driver API directly, linked with libcuda: no CUDA runtime in the program. Looks some of its
// functions up a second time, with cuGetProcAddress, and mixes both.
#include <cuda.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define DRIVER_OK(call)                                                                            \
    do {                                                                                           \
        CUresult code_ = (call);                                                                   \
        if (code_ != CUDA_SUCCESS) {                                                               \
            fprintf(stderr, "%s:%d: %s: CUDA driver error %d\n", __FILE__, __LINE__, #call,        \
                    (int)code_);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

typedef CUresult alloc_function(CUdeviceptr *, size_t);
typedef CUresult free_function(CUdeviceptr);

static uint64_t round_with(alloc_function *allocate, free_function *release, unsigned round) {
    size_t words = 10000 + 512 * (size_t)(round % 9);
    CUdeviceptr first, second, third;
    DRIVER_OK(allocate(&first, words * 4));
    DRIVER_OK(allocate(&second, words * 4));
    DRIVER_OK(cuMemAlloc(&third, (size_t)3 << 20));
    DRIVER_OK(cuMemsetD32(first, round * 2654435761u, words));
    DRIVER_OK(cuMemsetD32(third, 0xffffffffu, (size_t)3 << 18));
    DRIVER_OK(cuMemcpyDtoD(second, first, words * 4));
    std::vector<uint32_t> host(words);
    DRIVER_OK(cuMemcpyDtoH(host.data(), second, words * 4));
    uint64_t sum = 0;
    for (uint32_t word : host) {
        sum = sum * 31 + word;
    }
    DRIVER_OK(cuMemFree(third));
    DRIVER_OK(release(first));
    DRIVER_OK(release(second));
    return sum;
}

int main() {
    DRIVER_OK(cuInit(0));
    CUdevice device;
    DRIVER_OK(cuDeviceGet(&device, 0));
    CUcontext context;
#if CUDA_VERSION >= 13000
    DRIVER_OK(cuCtxCreate(&context, nullptr, 0, device));
#else
    DRIVER_OK(cuCtxCreate(&context, 0, device));
#endif
    alloc_function *looked_up_alloc = nullptr;
    free_function *looked_up_free = nullptr;
    CUdriverProcAddressQueryResult found;
    DRIVER_OK(cuGetProcAddress("cuMemAlloc", (void **)&looked_up_alloc, 3020, 0, &found));
    DRIVER_OK(cuGetProcAddress("cuMemFree", (void **)&looked_up_free, 3020, 0, &found));
    alloc_function *linked_alloc = cuMemAlloc;
    free_function *linked_free = cuMemFree;
    round_with(linked_alloc, linked_free, 0);
    auto start = std::chrono::steady_clock::now();
    for (unsigned round = 0; round < 1000; round++) {
        // Memory of one route is freed through the other.
        bool odd = round % 2 != 0;
        uint64_t sum = round_with(odd ? looked_up_alloc : linked_alloc,
                                  odd ? linked_free : looked_up_free, round);
        if (round % 50 == 0) {
            printf("result driver %u %016llx\n", round, (unsigned long long)sum);
        }
    }
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    printf("time loop %.6f\n", elapsed.count());
    // A second context, its memory, and its end while a block is live and one is idle.
    for (int round = 0; round < 3; round++) {
        CUcontext second;
#if CUDA_VERSION >= 13000
        DRIVER_OK(cuCtxCreate(&second, nullptr, 0, device));
#else
        DRIVER_OK(cuCtxCreate(&second, 0, device));
#endif
        CUdeviceptr live, idle;
        DRIVER_OK(cuMemAlloc(&live, 1 << 20));
        DRIVER_OK(cuMemAlloc(&idle, 1 << 20));
        DRIVER_OK(cuMemFree(idle));
        DRIVER_OK(cuCtxDestroy(second));
        CUcontext current;
        DRIVER_OK(cuCtxGetCurrent(&current));
        printf("result first context is current again: %s\n", current == context ? "yes" : "no");
        printf("result free of a block of the destroyed context: %d\n", (int)cuMemFree(live));
        uint64_t sum = round_with(linked_alloc, linked_free, (unsigned)round);
        printf("result after %d %016llx\n", round, (unsigned long long)sum);
    }
    DRIVER_OK(cuCtxDestroy(context));
    return 0;
}
