// Fills the device, frees everything, then asks for nearly all memory in one block: idle memory of
// the pool must not stand in the way. And asks for more than there is.
#include "gpu_program.cuh"

static const size_t MIB = (size_t)1 << 20;

// Allocates blocks of `bytes` until `total` bytes are reached or the device is full.
static std::vector<char *> allocate_until(size_t bytes, size_t total, cudaError_t *last) {
    std::vector<char *> blocks;
    *last = cudaSuccess;
    for (size_t sum = 0; sum + bytes <= total; sum += bytes) {
        char *block = nullptr;
        *last = cudaMalloc(&block, bytes);
        if (*last != cudaSuccess) {
            break;
        }
        blocks.push_back(block);
    }
    return blocks;
}

static void free_all(const std::vector<char *> &blocks) {
    for (char *block : blocks) {
        CUDA_OK(cudaFree(block));
    }
}

static void use_ends(char *block, size_t bytes) {
    fill<<<1, 64>>>((uint32_t *)block, 64, 1);
    fill<<<1, 64>>>((uint32_t *)(block + bytes - 256), 64, 2);
    CUDA_OK(cudaGetLastError());
    uint64_t hash = hash_device(HASH_START, block, 256);
    result("ends %016llx", (unsigned long long)hash_device(hash, block + bytes - 256, 256));
}

int main() {
    CUDA_OK(cudaFree(nullptr));
    fill<<<1, 1>>>(nullptr, 0, 0); // loads the module: its memory is not part of the accounts below
    CUDA_OK(cudaDeviceSynchronize());
    size_t free_at_start, total, now;
    CUDA_OK(cudaMemGetInfo(&free_at_start, &total));
    REQUIRE(free_at_start > 2048 * MIB);
    size_t nearly_all = (free_at_start - 1024 * MIB) / (2 * MIB) * (2 * MIB);
    double start = seconds_now();
    for (int round = 0; round < 2; round++) {
        cudaError_t last;
        // Of many sizes, so that no idle block fits the request that follows.
        std::vector<char *> small = allocate_until(48 * MIB, free_at_start / 8, &last);
        result("small blocks: %s", cudaGetErrorName(last));
        std::vector<char *> medium = allocate_until(700 * MIB, free_at_start / 2, &last);
        result("medium blocks: %s", cudaGetErrorName(last));
        free_all(small);
        free_all(medium);
        CUDA_OK(cudaMemGetInfo(&now, &total));
        result("all is free again: %s", now + 64 * MIB >= free_at_start ? "yes" : "no");

        char *huge = nullptr;
        cudaError_t code = cudaMalloc(&huge, nearly_all);
        result("nearly all memory in one block: %s", cudaGetErrorName(code));
        REQUIRE(code == cudaSuccess);
        result("last error: %s", cudaGetErrorName(cudaGetLastError()));
        use_ends(huge, nearly_all);
        CUDA_OK(cudaFree(huge));
    }
    // Until it really is full, then half is freed and asked for again in other sizes.
    cudaError_t last;
    std::vector<char *> blocks = allocate_until(1024 * MIB, 2 * total, &last);
    result("until full: %s", cudaGetErrorName(last));
    result("last error: %s", cudaGetErrorName(cudaGetLastError()));
    result("then: %s", cudaGetErrorName(cudaGetLastError()));
    size_t half = blocks.size() / 2;
    free_all(std::vector<char *>(blocks.begin() + (long)half, blocks.end()));
    size_t freed = blocks.size() - half;
    blocks.resize(half);
    for (size_t i = 0; i + 2 <= freed; i += 2) {
        char *block = nullptr;
        cudaError_t code = cudaMalloc(&block, 2048 * MIB);
        if (code != cudaSuccess) {
            result("double size after freeing half: %s", cudaGetErrorName(code));
            return 1;
        }
        blocks.push_back(block);
    }
    result("double size after freeing half: fits");
    free_all(blocks);
    time_line("loop", seconds_now() - start);

    char *block = (char *)1;
    cudaError_t code = cudaMalloc(&block, total + 1024 * MIB);
    result("more than the device has: %s, pointer %s", cudaGetErrorName(code),
           block == nullptr ? "null" : (block == (char *)1 ? "unchanged" : "set"));
    result("last error: %s", cudaGetErrorName(cudaGetLastError()));
    CUDA_OK(cudaMalloc(&block, nearly_all));
    use_ends(block, nearly_all);
    // Other allocations that need the room which the pool may be holding.
    CUDA_OK(cudaFree(block));
    void *managed = nullptr;
    CUDA_OK(cudaMallocManaged(&managed, 64 * MIB));
    CUDA_OK(cudaFree(managed));
    cudaStream_t stream;
    CUDA_OK(cudaStreamCreate(&stream));
    CUDA_OK(cudaMallocAsync((void **)&block, nearly_all, stream));
    CUDA_OK(cudaFreeAsync(block, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    result("stream-ordered allocation of nearly all memory: cudaSuccess");
    return 0;
}
