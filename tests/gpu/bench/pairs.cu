// The cost of one malloc and free by size: pairs malloc|async|host. With "malloc" cudaMalloc and
// cudaFree, natively or under the pool; with "async" cudaMallocAsync and cudaFreeAsync in the
// legacy stream, their pool told to keep what is freed; with "host" cudaHostAlloc and cudaFreeHost,
// up to 1 GiB. Another block lives all the while, so that the pool may put a free's wait off. Sizes
// that do not fit are left out.
//
// Prints "pair BYTES MEDIAN LEAST GREATEST", nanoseconds per pair, of several batches.
#include "../gpu_program.cuh"

#include <algorithm>
#include <cstring>

enum { BATCHES = 7, MOST_PAIRS = 2000 };
static const double batch_seconds = 0.01;

enum way { MALLOC, ASYNC, HOST, WAYS };
static const char *const way_names[] = {"malloc", "async", "host"};
static int way;

static bool allocate(void **block, size_t bytes) {
    cudaError_t code = way == ASYNC  ? cudaMallocAsync(block, bytes, 0)
                       : way == HOST ? cudaHostAlloc(block, bytes, cudaHostAllocDefault)
                                     : cudaMalloc(block, bytes);
    if (code == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return false;
    }
    CUDA_OK(code);
    return true;
}

static void release(void *block) {
    CUDA_OK(way == ASYNC  ? cudaFreeAsync(block, 0)
            : way == HOST ? cudaFreeHost(block)
                          : cudaFree(block));
}

// Nanoseconds per pair of `pairs` pairs, less than 0 if the size does not fit.
static double batch(size_t bytes, int pairs) {
    double started = seconds_now();
    for (int i = 0; i < pairs; i++) {
        void *block;
        if (!allocate(&block, bytes))
            return -1;
        release(block);
    }
    return (seconds_now() - started) * 1e9 / pairs;
}

// 1, 16, 256, 4096, 16384, ... bytes to 4 GiB, and 8 GiB.
static size_t next_size(size_t bytes) {
    return bytes * (bytes < 4096 ? 16 : bytes < (size_t)4 << 30 ? 4 : 2);
}

int main(int argc, char **argv) {
    while (way < WAYS && (argc != 2 || strcmp(argv[1], way_names[way]) != 0))
        way++;
    if (way == WAYS) {
        fprintf(stderr, "usage: pairs malloc|async|host\n");
        return 2;
    }
    const size_t most = (size_t)(way == HOST ? 1 : 8) << 30;
    CUDA_OK(cudaFree(nullptr));
    if (way == ASYNC) {
        cudaMemPool_t pool;
        uint64_t all = UINT64_MAX;
        CUDA_OK(cudaDeviceGetDefaultMemPool(&pool, 0));
        CUDA_OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    }
    void *beside;
    REQUIRE(allocate(&beside, 1 << 20));
    for (size_t bytes = 1; bytes <= most; bytes = next_size(bytes)) {
        double first = batch(bytes, 3);
        if (first < 0)
            continue;
        first = batch(bytes, 3);
        int pairs = (int)std::min((double)MOST_PAIRS, std::max(1.0, batch_seconds * 1e9 / first));
        std::vector<double> each;
        for (int i = 0; i < BATCHES; i++)
            each.push_back(batch(bytes, pairs));
        CUDA_OK(cudaDeviceSynchronize());
        std::sort(each.begin(), each.end());
        printf("pair %zu %.1f %.1f %.1f\n", bytes, each[BATCHES / 2], each.front(), each.back());
        fflush(stdout);
    }
    release(beside);
    return 0;
}
