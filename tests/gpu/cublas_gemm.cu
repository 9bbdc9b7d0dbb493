// Multiplies matrices in a loop with fresh allocations for all three; now and then a new cuBLAS
// handle, whose workspace is allocated inside the library.
#include "gpu_program.cuh"

#include <cublas_v2.h>

#define CUBLAS_OK(call)                                                                            \
    do {                                                                                           \
        cublasStatus_t code_ = (call);                                                             \
        if (code_ != CUBLAS_STATUS_SUCCESS) {                                                      \
            fprintf(stderr, "%s:%d: %s: cuBLAS error %d\n", __FILE__, __LINE__, #call,             \
                    (int)code_);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

__global__ static void matrix(float *data, size_t count, uint32_t seed) {
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += stride) {
        data[i] = (float)(mix(seed, (uint32_t)i) & 0xff) / 256.0f - 0.5f;
    }
}

static uint64_t multiply(cublasHandle_t handle, uint32_t round) {
    int n = 128 + 32 * (int)(round % 7);
    size_t count = (size_t)n * (size_t)n;
    float *a, *b, *c;
    CUDA_OK(cudaMalloc(&a, count * sizeof *a));
    CUDA_OK(cudaMalloc(&b, count * sizeof *b));
    CUDA_OK(cudaMalloc(&c, count * sizeof *c));
    matrix<<<GRID, THREADS>>>(a, count, round % 7);
    matrix<<<GRID, THREADS>>>(b, count, round % 7 + 100);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaMemset(c, 0xff, count * sizeof *c)); // not-a-numbers: beta 0 must ignore them
    float one = 1.0f, zero = 0.0f;
    CUBLAS_OK(
        cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, n, b, n, &zero, c, n));
    uint64_t hash = hash_device(HASH_START, c, count * sizeof *c);
    CUDA_OK(cudaFree(a));
    CUDA_OK(cudaFree(b));
    CUDA_OK(cudaFree(c));
    return hash;
}

int main() {
    cublasHandle_t handle;
    CUBLAS_OK(cublasCreate(&handle));
    uint64_t first[7];
    for (uint32_t round = 0; round < 7; round++) {
        first[round] = multiply(handle, round);
        result("gemm %u %016llx", round, (unsigned long long)first[round]);
    }
    double start = seconds_now();
    for (uint32_t round = 0; round < 700; round++) {
        if (round % 50 == 49) {
            CUBLAS_OK(cublasDestroy(handle));
            CUBLAS_OK(cublasCreate(&handle));
        }
        REQUIRE(multiply(handle, round) == first[round % 7]);
    }
    time_line("loop", seconds_now() - start);
    CUBLAS_OK(cublasDestroy(handle));
    return 0;
}
