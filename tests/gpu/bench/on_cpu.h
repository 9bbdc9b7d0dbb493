// Stands in for gpu_program.cuh and for the parallel operations of bench.cuh where there is no GPU:
// host memory, loops. Only for checking results.
#ifndef POOLCUDA_TESTS_GPU_BENCH_ON_CPU_H
#define POOLCUDA_TESTS_GPU_BENCH_ON_CPU_H

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define DEVICE
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define CUDA_OK(call) REQUIRE((call) == 0)

struct float4 {
    float x, y, z, w;
};

enum { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
template <class T> static int cudaMalloc(T **pointer, size_t bytes) {
    *pointer = (T *)malloc(bytes);
    memset((void *)*pointer, 0xa5, bytes); // nobody may count on zeroes
    return 0;
}

[[maybe_unused]] static int cudaFree(void *pointer) {
    free(pointer);
    return 0;
}

[[maybe_unused]] static int cudaMemcpy(void *to, const void *from, size_t bytes, int) {
    memcpy(to, from, bytes);
    return 0;
}

[[maybe_unused]] static int cudaDeviceSynchronize() {
    return 0;
}

[[maybe_unused]] static double seconds_now() {
    using namespace std::chrono;
    return duration<double>(steady_clock::now().time_since_epoch()).count();
}

#define result(format, ...) printf("result " format "\n", __VA_ARGS__)

[[maybe_unused]] static void time_line(const char *name, double seconds) {
    printf("time %s %.6f\n", name, seconds);
}

enum : uint64_t { HASH_START = 14695981039346656037ull };

[[maybe_unused]] static uint64_t hash_device(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *byte = (const unsigned char *)data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 1099511628211ull;
    return hash;
}

static inline uint32_t mix(uint32_t seed, uint32_t index) {
    uint32_t x = index * 2654435761u ^ seed * 2246822519u;
    x ^= x >> 16;
    x *= 2146121005u;
    x ^= x >> 15;
    return x;
}

template <class F> static void each(size_t count, F body) {
    for (size_t i = 0; i < count; i++)
        body(i);
}

[[maybe_unused]] static void scan(const uint32_t *in, uint32_t *out, size_t count) {
    uint32_t sum = 0;
    for (size_t i = 0; i < count; i++)
        out[i] = sum += in[i];
}

#endif
