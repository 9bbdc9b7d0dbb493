// The host reads a __managed__ variable right after a free, with nothing else that the pool could
// know of managed memory from: the variable's registration alone must keep frees waiting. A second
// block stays live, so that the free is not the last one.
#include "gpu_program.cuh"

enum { ROUNDS = 8, SPIN_NS = 4000000, BYTES = 1 << 20 };

__managed__ uint32_t seen_by_all;

__global__ static void write_late(uint64_t nanoseconds, uint32_t value) {
    uint64_t start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
    *(volatile uint32_t *)&seen_by_all = value;
    __threadfence_system();
}

int main() {
    int managed = 0;
    CUDA_OK(cudaDeviceGetAttribute(&managed, cudaDevAttrConcurrentManagedAccess, 0));
    if (!managed) {
        printf("skip the host cannot touch managed memory while a kernel runs\n");
        return EXIT_SKIPPED;
    }
    void *kept;
    int seen = 0;
    CUDA_OK(cudaMalloc(&kept, BYTES));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        void *block;
        CUDA_OK(cudaMalloc(&block, BYTES));
        write_late<<<1, 1>>>(SPIN_NS, round);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaFree(block));
        seen += *(volatile uint32_t *)&seen_by_all == round;
        CUDA_OK(cudaDeviceSynchronize());
        REQUIRE(seen_by_all == round);
    }
    result("host saw the kernel's value after the free %d of %d times", seen, (int)ROUNDS);
    CUDA_OK(cudaFree(kept));
    return 0;
}
