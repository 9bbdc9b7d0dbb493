// What the GPU programs share: error handling, output, kernels whose results are exact.
//
// Output protocol, read by scripts/gpu-check: lines "result ..." must be the same bit for bit with
// and without the pool; "time NAME SECONDS" is reported, never compared; exit status 77 after a
// line "skip REASON" says that the machine cannot run the program.
#ifndef POOLCUDA_TESTS_GPU_PROGRAM_CUH
#define POOLCUDA_TESTS_GPU_PROGRAM_CUH

#include <cuda_runtime.h>

#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

enum { EXIT_SKIPPED = 77 };

#define CUDA_OK(call)                                                                              \
    do {                                                                                           \
        cudaError_t code_ = (call);                                                                \
        if (code_ != cudaSuccess) {                                                                \
            fprintf(stderr, "%s:%d: %s: %s (%d)\n", __FILE__, __LINE__, #call,                     \
                    cudaGetErrorName(code_), (int)code_);                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

[[maybe_unused]] static double seconds_now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// Compared between the native and the pooled run.
[[maybe_unused]] static void result(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void result(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("result ");
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
}

[[maybe_unused]] static void time_line(const char *name, double seconds) {
    printf("time %s %.6f\n", name, seconds);
    fflush(stdout);
}

// FNV-1a over bytes; `hash` chains several pieces.
enum : uint64_t { HASH_START = 14695981039346656037ull };
[[maybe_unused]] static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *byte = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ byte[i]) * 1099511628211ull;
    }
    return hash;
}

// Copies `bytes` of device memory to the host (a synchronising copy) and chains them to `hash`.
[[maybe_unused]] static uint64_t hash_device(uint64_t hash, const void *device, size_t bytes) {
    std::vector<unsigned char> host(bytes);
    CUDA_OK(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost));
    return hash_bytes(hash, host.data(), bytes);
}

// A deterministic value for element `index` of the sequence `seed`.
__host__ __device__ static inline uint32_t mix(uint32_t seed, uint32_t index) {
    uint32_t x = index * 2654435761u ^ seed * 2246822519u;
    x ^= x >> 16;
    x *= 2146121005u;
    x ^= x >> 15;
    return x;
}

// data[i] = mix(seed, i)
__global__ static void fill(uint32_t *data, size_t count, uint32_t seed) {
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += stride) {
        data[i] = mix(seed, (uint32_t)i);
    }
}

// out[i] = in[i] * 3 + add
__global__ static void transform(uint32_t *out, const uint32_t *in, size_t count, uint32_t add) {
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += stride) {
        out[i] = in[i] * 3u + add;
    }
}

// Keeps its stream busy for about `nanoseconds` and then, if `flag` is not null, stores `value`
// there. Bounded: ends after the given time whatever else the device does.
__global__ static void spin(unsigned long long nanoseconds, volatile uint32_t *flag,
                            uint32_t value) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
    if (flag != nullptr) {
        *flag = value;
        __threadfence_system();
    }
}

[[maybe_unused]] static const unsigned GRID = 128, THREADS = 256;

#endif
