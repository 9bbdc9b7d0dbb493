// Allocates in every iteration and frees while the work is still queued, in each kind of stream.
// A pool that recycles too early overwrites data that an earlier round still has to read.
// Also compiled with --default-stream per-thread, where stream 0 is the per-thread one.
#include "gpu_program.cuh"

static uint64_t round_in(cudaStream_t stream, uint32_t round, uint32_t *pinned) {
    size_t count = 20000 + 1500 * (size_t)(round % 11);
    uint32_t *in, *out;
    CUDA_OK(cudaMalloc(&in, count * sizeof *in));
    CUDA_OK(cudaMalloc(&out, count * sizeof *out));
    fill<<<GRID, THREADS, 0, stream>>>(in, count, round);
    if (round % 8 == 0) {
        spin<<<1, 1, 0, stream>>>(200000, nullptr, 0); // the free below comes well before the end
    }
    transform<<<GRID, THREADS, 0, stream>>>(out, in, count, round);
    CUDA_OK(cudaGetLastError());
    CUDA_OK(cudaMemcpyAsync(pinned, out, count * sizeof *out, cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaFree(in)); // with the work still queued
    uint32_t *other;       // likely to be given the memory of `in`
    CUDA_OK(cudaMalloc(&other, count * sizeof *other));
    CUDA_OK(cudaMemsetAsync(other, 0xee, count * sizeof *other, stream));
    CUDA_OK(cudaFree(out));
    CUDA_OK(cudaFree(other));
    CUDA_OK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < count; i++) {
        REQUIRE(pinned[i] == mix(round, (uint32_t)i) * 3u + round);
    }
    return hash_bytes(HASH_START, pinned, count * sizeof *pinned);
}

int main() {
    enum { KINDS = 6 };
    static const char *const names[KINDS] = {"default",  "legacy",       "per-thread",
                                             "blocking", "non-blocking", "high-priority"};
    cudaStream_t streams[KINDS] = {0, cudaStreamLegacy, cudaStreamPerThread};
    int lowest, highest;
    CUDA_OK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    CUDA_OK(cudaStreamCreate(&streams[3]));
    CUDA_OK(cudaStreamCreateWithFlags(&streams[4], cudaStreamNonBlocking));
    CUDA_OK(cudaStreamCreateWithPriority(&streams[5], cudaStreamNonBlocking, highest));
    uint32_t *pinned;
    CUDA_OK(cudaMallocHost(&pinned, 40000 * sizeof *pinned));
    for (int kind = 0; kind < KINDS; kind++) {
        round_in(streams[kind], 1, pinned);
    }
    uint64_t hashes[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        hashes[kind] = HASH_START;
    }
    double start = seconds_now();
    for (uint32_t round = 0; round < 200; round++) {
        for (int kind = 0; kind < KINDS; kind++) {
            uint64_t hash = round_in(streams[kind], round * KINDS + (uint32_t)kind, pinned);
            hashes[kind] = hash_bytes(hashes[kind], &hash, sizeof hash);
        }
    }
    time_line("loop", seconds_now() - start);
    for (int kind = 0; kind < KINDS; kind++) {
        result("stream %s %016llx", names[kind], (unsigned long long)hashes[kind]);
    }
    // Streams that come and go with their own allocations.
    for (uint32_t round = 0; round < 50; round++) {
        cudaStream_t stream;
        CUDA_OK(cudaStreamCreateWithFlags(&stream,
                                          round % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
        uint64_t hash = round_in(stream, round, pinned);
        if (round % 10 == 0) {
            result("short-lived %u %016llx", round, (unsigned long long)hash);
        }
        CUDA_OK(cudaStreamDestroy(stream));
    }
    CUDA_OK(cudaFreeHost(pinned));
    return 0;
}
