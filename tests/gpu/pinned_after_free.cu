// The host reads pinned memory right after a free, without any other synchronisation. Programs rely
// on the wait inside cudaFree, though CUDA calls it "may perform implicit synchronization". What a
// block's free waits for on this machine is the result; the pool has to do the same.
#include "gpu_program.cuh"

enum { ROUNDS = 8, SPIN_NS = 4000000 };

static void read_after_free(const char *kind, cudaStream_t stream, size_t bytes,
                            volatile uint32_t *pinned) {
    int seen = 0;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        void *block;
        CUDA_OK(cudaMalloc(&block, bytes));
        CUDA_OK(cudaMemset(block, 0, bytes));
        CUDA_OK(cudaDeviceSynchronize());
        *pinned = 0;
        spin<<<1, 1, 0, stream>>>(SPIN_NS, pinned, round);
        CUDA_OK(cudaGetLastError());
        CUDA_OK(cudaFree(block));
        seen += *pinned == round;
        CUDA_OK(cudaDeviceSynchronize());
        REQUIRE(*pinned == round);
    }
    result("%s, %zu bytes: host saw the kernel's value after the free %d of %d times", kind, bytes,
           seen, (int)ROUNDS);
}

int main() {
    cudaStream_t blocking, non_blocking;
    CUDA_OK(cudaStreamCreate(&blocking));
    CUDA_OK(cudaStreamCreateWithFlags(&non_blocking, cudaStreamNonBlocking));
    uint32_t *pinned;
    CUDA_OK(cudaMallocHost(&pinned, sizeof *pinned));
    spin<<<1, 1>>>(1000, pinned, 0);
    CUDA_OK(cudaDeviceSynchronize());
    double start = seconds_now();
    static const size_t sizes[] = {64, 4096, 1 << 20, 3 << 20, 64 << 20};
    for (size_t bytes : sizes) {
        read_after_free("legacy stream", cudaStreamLegacy, bytes, pinned);
        read_after_free("blocking stream", blocking, bytes, pinned);
        read_after_free("non-blocking stream", non_blocking, bytes, pinned);
        read_after_free("per-thread stream", cudaStreamPerThread, bytes, pinned);
    }
    time_line("loop", seconds_now() - start);
    CUDA_OK(cudaFreeHost(pinned));
    return 0;
}
