// Two faults that a real GPU lets pass: a write just behind a block, and one into a freed block.
// Alone it shows that nothing comes of them; check_memory.py runs it with POOLCUDA_CHECK.
#include "gpu_program.cuh"

__global__ static void write_at(uint32_t *words, size_t index) {
    words[index] = 0x5eed;
}

int main() {
    enum { WORDS = 1000 };
    uint32_t *block, *freed, *kept;
    CUDA_OK(cudaMalloc(&kept, WORDS * sizeof *kept));
    CUDA_OK(cudaMalloc(&block, WORDS * sizeof *block));
    write_at<<<1, 1>>>(block, WORDS);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaFree(block));
    CUDA_OK(cudaMalloc(&freed, WORDS * sizeof *freed));
    CUDA_OK(cudaFree(freed));
    write_at<<<1, 1>>>(freed, 7);
    CUDA_OK(cudaGetLastError());
    // Where the driver has taken the page back, the second one is an error that costs the context.
    cudaError_t code = cudaDeviceSynchronize();
    result("survived %d", code == cudaSuccess || code == cudaErrorIllegalAddress);
    return 0;
}
