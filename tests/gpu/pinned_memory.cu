// Pinned memory that is freed while the device still works on it, allocated again and written to by
// the host at once. The data that arrives on the device, and what the host finds, are the results.
#include "gpu_program.cuh"

#include <cstring>

enum { ROUNDS = 60, BUSY_NS = 300000 };

__global__ static void sum_into(unsigned long long *sum, const uint32_t *words, size_t count) {
    unsigned long long own = 0;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x)
        own += words[i];
    atomicAdd(sum, own);
}

// One round: what the host writes must be what the copy, behind a spinning kernel, brings over.
static void round_of(unsigned int flags, size_t bytes, cudaStream_t stream, uint32_t *device,
                     unsigned long long *sum, uint32_t value) {
    uint32_t *host;
    CUDA_OK(cudaHostAlloc(&host, bytes, flags));
    for (size_t i = 0; i < bytes / 4; i++)
        host[i] = value;
    spin<<<1, 1, 0, stream>>>(BUSY_NS, nullptr, 0);
    CUDA_OK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
    sum_into<<<1, 256, 0, stream>>>(sum, device, bytes / 4);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaFreeHost(host)); // which waits for the copy
}

int main() {
    static const size_t sizes[] = {4096, 1 << 20, 5 << 20};
    static const unsigned int kinds[] = {cudaHostAllocDefault, cudaHostAllocWriteCombined,
                                         cudaHostAllocPortable};
    cudaStream_t streams[2];
    CUDA_OK(cudaStreamCreate(&streams[0]));
    CUDA_OK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    uint32_t *device;
    unsigned long long *sum, total;
    CUDA_OK(cudaMalloc(&device, sizes[2]));
    CUDA_OK(cudaMalloc(&sum, sizeof *sum));
    double start = seconds_now();
    for (size_t bytes : sizes) {
        for (unsigned int flags : kinds) {
            CUDA_OK(cudaMemset(sum, 0, sizeof *sum));
            CUDA_OK(cudaDeviceSynchronize());
            for (int i = 0; i < ROUNDS; i++)
                round_of(flags, bytes, streams[i % 2], device, sum, (uint32_t)i + 1);
            CUDA_OK(cudaMemcpy(&total, sum, sizeof total, cudaMemcpyDeviceToHost));
            unsigned long long expected = (unsigned long long)ROUNDS * (ROUNDS + 1) / 2 * (bytes / 4);
            result("%zu bytes, flags %u: sum %llu, expected %llu", bytes, flags, total, expected);
            REQUIRE(total == expected);
        }
    }
    time_line("loop", seconds_now() - start);
    return 0;
}
