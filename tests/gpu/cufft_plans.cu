// Makes and destroys cuFFT plans in a loop: each plan allocates its work area inside the library.
#include "gpu_program.cuh"

#include <cufft.h>

#define CUFFT_OK(call)                                                                             \
    do {                                                                                           \
        cufftResult code_ = (call);                                                                \
        if (code_ != CUFFT_SUCCESS) {                                                              \
            fprintf(stderr, "%s:%d: %s: cuFFT error %d\n", __FILE__, __LINE__, #call, (int)code_); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

__global__ static void signal(cufftComplex *data, size_t count, uint32_t seed) {
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += stride) {
        data[i].x = (float)(mix(seed, (uint32_t)i) & 0xffff) / 65536.0f;
        data[i].y = (float)(mix(seed + 1, (uint32_t)i) & 0xffff) / 65536.0f;
    }
}

static uint64_t transform_once(uint32_t round) {
    static const int lengths[] = {4096, 5040, 65536, 3 * 4096, 4099, 1 << 18};
    int length = lengths[round % 6], batch = 1 + (int)(round % 4);
    size_t count = (size_t)length * (size_t)batch;
    cufftComplex *data;
    CUDA_OK(cudaMalloc(&data, count * sizeof *data));
    signal<<<GRID, THREADS>>>(data, count, round % 24);
    CUDA_OK(cudaGetLastError());
    cufftHandle plan;
    CUFFT_OK(cufftPlan1d(&plan, length, CUFFT_C2C, batch));
    CUFFT_OK(cufftExecC2C(plan, data, data, CUFFT_FORWARD));
    CUFFT_OK(cufftDestroy(plan));
    uint64_t hash = hash_device(HASH_START, data, count * sizeof *data);
    CUDA_OK(cudaFree(data));
    return hash;
}

int main() {
    // Every length and batch once: the kernels are loaded, and the answers are kept.
    uint64_t first[24];
    for (uint32_t round = 0; round < 24; round++) {
        first[round] = transform_once(round);
        result("fft %u %016llx", round, (unsigned long long)first[round]);
    }
    double start = seconds_now();
    for (uint32_t round = 0; round < 120; round++) {
        REQUIRE(transform_once(round) == first[round % 24]);
    }
    time_line("loop", seconds_now() - start);
    return 0;
}
