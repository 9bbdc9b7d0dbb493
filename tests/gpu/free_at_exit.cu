// Frees device memory from a static destructor and from an exit handler, when the driver may be
// shutting down: whatever the codes are, the process has to end as it does natively.
#include "gpu_program.cuh"

struct holder {
    void *block = nullptr;
    ~holder() {
        if (block != nullptr) {
            cudaFree(block);
        }
    }
};

static holder constructed_before_cuda;
static void *handler_block;

static void free_in_handler() {
    cudaFree(handler_block);
}

int main() {
    atexit(free_in_handler);
    for (int round = 0; round < 20; round++) {
        uint32_t *block;
        CUDA_OK(cudaMalloc(&block, 1 << 20));
        fill<<<GRID, THREADS>>>(block, 1 << 18, (uint32_t)round);
        CUDA_OK(cudaGetLastError());
        if (round % 10 == 0) {
            result("round %d %016llx", round,
                   (unsigned long long)hash_device(HASH_START, block, (size_t)1 << 20));
        }
        CUDA_OK(cudaFree(block));
    }
    static holder constructed_after_cuda;
    CUDA_OK(cudaMalloc(&constructed_before_cuda.block, 4096));
    CUDA_OK(cudaMalloc(&constructed_after_cuda.block, 8 << 20));
    CUDA_OK(cudaMalloc(&handler_block, 70000));
    fill<<<GRID, THREADS>>>((uint32_t *)handler_block, 70000 / 4, 1); // still running at exit
    result("leaving");
    exit(3);
}
