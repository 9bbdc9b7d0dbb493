// Many threads allocate, work and free at once, each in its own stream; a part of the blocks is
// freed by another thread than the one that allocated it.
#include "gpu_program.cuh"

#include <mutex>
#include <thread>

enum { WORKERS = 8, ROUNDS = 150 };

static std::mutex handed_over_lock;
static std::vector<void *> handed_over;

static void hand_over(void *block) {
    void *taken = nullptr;
    {
        std::lock_guard<std::mutex> guard(handed_over_lock);
        handed_over.push_back(block);
        if (handed_over.size() > WORKERS) {
            taken = handed_over.front();
            handed_over.erase(handed_over.begin());
        }
    }
    CUDA_OK(cudaFree(taken));
}

static uint64_t work(uint32_t worker) {
    cudaStream_t stream;
    CUDA_OK(
        cudaStreamCreateWithFlags(&stream, worker % 2 ? cudaStreamNonBlocking : cudaStreamDefault));
    uint64_t hash = HASH_START;
    std::vector<uint32_t> host;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        size_t count = 5000 + 900 * (size_t)((round + worker) % 13);
        uint32_t seed = worker * 1000 + round, *in, *out;
        CUDA_OK(cudaMalloc(&in, count * sizeof *in));
        CUDA_OK(cudaMalloc(&out, count * sizeof *out));
        fill<<<GRID, THREADS, 0, stream>>>(in, count, seed);
        transform<<<GRID, THREADS, 0, stream>>>(out, in, count, worker);
        CUDA_OK(cudaGetLastError());
        host.resize(count);
        CUDA_OK(
            cudaMemcpyAsync(host.data(), out, count * sizeof *out, cudaMemcpyDeviceToHost, stream));
        CUDA_OK(cudaStreamSynchronize(stream));
        for (size_t i = 0; i < count; i++) {
            REQUIRE(host[i] == mix(seed, (uint32_t)i) * 3u + worker);
        }
        hash = hash_bytes(hash, host.data(), count * sizeof host[0]);
        CUDA_OK(cudaFree(in));
        if (round % 3 == 0) {
            hand_over(out);
        } else {
            CUDA_OK(cudaFree(out));
        }
    }
    CUDA_OK(cudaStreamDestroy(stream));
    return hash;
}

int main() {
    work(0);
    uint64_t hashes[WORKERS];
    std::vector<std::thread> threads;
    double start = seconds_now();
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        threads.emplace_back([&hashes, worker] { hashes[worker] = work(worker); });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    time_line("loop", seconds_now() - start);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        result("thread %u %016llx", worker, (unsigned long long)hashes[worker]);
    }
    for (void *block : handed_over) {
        CUDA_OK(cudaFree(block));
    }
    return 0;
}
