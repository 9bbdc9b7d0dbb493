// What the benchmark programs share: buffers that live as long as a temporary of generated code,
// the parallel operations that they are made of, and the loop that is timed.
//
// Output, read by scripts/gpu-bench: "result NAME HASH", the same in every run and mode; "time NAME
// SECONDS", of the timed runs; with the shim inside.c preloaded "inside NAME SECONDS", the time
// that these runs spent in cudaMalloc and cudaFree.
//
// With BENCH_ON_CPU the programs are plain C++, with host memory and loops: so their results can be
// checked on a machine without a GPU.
#ifndef POOLCUDA_TESTS_GPU_BENCH_CUH
#define POOLCUDA_TESTS_GPU_BENCH_CUH

#ifdef BENCH_ON_CPU
#include "on_cpu.h"
#else
#include "../gpu_program.cuh"

#include <cub/device/device_scan.cuh>
#define DEVICE __device__
#endif

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <string>

// Device memory for `count` elements, from a call of its own to a free of its own. Inlined, so that
// each place in a program is a call site of its own, as in generated code.
template <class T> struct Buffer {
    T *data = nullptr;
    size_t count = 0;

    Buffer() = default;
    __attribute__((always_inline)) explicit Buffer(size_t count) : count(count) {
        CUDA_OK(cudaMalloc(&data, (count ? count : 1) * sizeof(T)));
    }
    __attribute__((always_inline)) ~Buffer() {
        if (data)
            CUDA_OK(cudaFree(data));
    }
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;
    // The old memory is freed at once: `a = std::move(b)` at the end of a loop's body.
    __attribute__((always_inline)) Buffer &operator=(Buffer &&other) noexcept {
        if (data)
            CUDA_OK(cudaFree(data));
        data = other.data;
        count = other.count;
        other.data = nullptr;
        return *this;
    }
    __attribute__((always_inline)) Buffer(Buffer &&other) noexcept
        : data(other.data), count(other.count) {
        other.data = nullptr;
    }
};

#ifndef BENCH_ON_CPU
template <class F> __global__ static void each_kernel(size_t count, F body) {
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += stride)
        body(i);
}

// body(0), ..., body(count - 1), in the legacy stream.
template <class F> static void each(size_t count, F body) {
    if (!count)
        return;
    size_t blocks = (count + THREADS - 1) / THREADS;
    each_kernel<<<(unsigned)(blocks < 65536 ? blocks : 65536), THREADS>>>(count, body);
    CUDA_OK(cudaGetLastError());
}

// out[i] = in[0] + ... + in[i]. Its temporary storage comes and goes, too.
[[maybe_unused]] static void scan(const uint32_t *in, uint32_t *out, size_t count) {
    size_t bytes = 0;
    CUDA_OK(cub::DeviceScan::InclusiveSum(nullptr, bytes, in, out, (int)count));
    Buffer<unsigned char> storage(bytes);
    CUDA_OK(cub::DeviceScan::InclusiveSum(storage.data, bytes, in, out, (int)count));
}
#endif

template <class T> static void upload(T *to, const std::vector<T> &from) {
    CUDA_OK(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
}

template <class T> static std::vector<T> download(const T *from, size_t count) {
    std::vector<T> to(count);
    CUDA_OK(cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
}

// In [0, 1).
static inline double uniform(uint32_t seed, uint32_t index) {
    return mix(seed, index) * (1.0 / 4294967296.0);
}

// Runs `once` `runs` times after warm-up runs, and says what the timed runs took. once(true)
// returns a hash of its results, which must be the same before and after; once(false) leaves that
// out, as it is no part of what is measured.
template <class F> static void measure(const std::string &name, int runs, F once) {
    enum { WARM_UP = 3 };
    void (*begin)(void) = nullptr;
    double (*spent)(void) = nullptr;
    *(void **)&begin = dlsym(RTLD_DEFAULT, "inside_begin");
    *(void **)&spent = dlsym(RTLD_DEFAULT, "inside_seconds");
    uint64_t first = once(true);
    for (int i = 0; i < WARM_UP; i++)
        once(false);
    CUDA_OK(cudaDeviceSynchronize());
    if (begin)
        begin();
    double started = seconds_now();
    for (int i = 0; i < runs; i++) {
        once(false);
        CUDA_OK(cudaDeviceSynchronize()); // a run ends with its work
    }
    double seconds = seconds_now() - started, inside = spent ? spent() : 0;
    REQUIRE(once(true) == first);
    result("%s %016llx", name.c_str(), (unsigned long long)first);
    time_line(name.c_str(), seconds);
    if (spent)
        printf("inside %s %.6f\n", name.c_str(), inside);
}

#endif
