// Reduces and scans with CUB, asking for the temporary storage anew in every round as its
// documentation shows.
#include "gpu_program.cuh"

#include <cub/cub.cuh>

static uint64_t reduce_once(uint32_t round) {
    int count = 100000 + 1000 * (int)(round % 23);
    uint32_t *in, *scanned;
    uint64_t *sum;
    CUDA_OK(cudaMalloc(&in, count * sizeof *in));
    CUDA_OK(cudaMalloc(&scanned, count * sizeof *scanned));
    CUDA_OK(cudaMalloc(&sum, sizeof *sum));
    fill<<<GRID, THREADS>>>(in, (size_t)count, round);
    CUDA_OK(cudaGetLastError());

    void *storage = nullptr;
    size_t bytes = 0;
    CUDA_OK(cub::DeviceScan::InclusiveSum(storage, bytes, in, scanned, count));
    CUDA_OK(cudaMalloc(&storage, bytes));
    CUDA_OK(cub::DeviceScan::InclusiveSum(storage, bytes, in, scanned, count));
    CUDA_OK(cudaFree(storage));

    storage = nullptr;
    CUDA_OK(cub::DeviceReduce::Reduce(storage, bytes, scanned, sum, count,
                                      cuda::std::plus<uint64_t>(), (uint64_t)0));
    CUDA_OK(cudaMalloc(&storage, bytes));
    CUDA_OK(cub::DeviceReduce::Reduce(storage, bytes, scanned, sum, count,
                                      cuda::std::plus<uint64_t>(), (uint64_t)0));
    CUDA_OK(cudaFree(storage));

    uint64_t total;
    CUDA_OK(cudaMemcpy(&total, sum, sizeof total, cudaMemcpyDeviceToHost));
    uint32_t expected_running = 0;
    uint64_t expected = 0;
    for (int i = 0; i < count; i++) {
        expected_running += mix(round, (uint32_t)i);
        expected += expected_running;
    }
    REQUIRE(total == expected);
    CUDA_OK(cudaFree(sum));
    CUDA_OK(cudaFree(scanned));
    CUDA_OK(cudaFree(in));
    return total;
}

int main() {
    reduce_once(0);
    double start = seconds_now();
    for (uint32_t round = 0; round < 500; round++) {
        uint64_t total = reduce_once(round);
        if (round % 25 == 0) {
            result("reduce %u %llu", round, (unsigned long long)total);
        }
    }
    time_line("loop", seconds_now() - start);
    return 0;
}
