/* A tree reduction: every level halves its input into a temporary of its own, as library reductions
 * and sorts do. Where the CUDA runtime can load kernels by itself (12.8), it does. */
#include "sample.h"

#if CUDART_VERSION >= 12080
static cudaKernel_t fill_kernel, add_kernel;

static void load(void) {
    cudaLibrary_t library;
    CHECK(cudaLibraryLoadData(&library, sample_kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cudaLibraryGetKernel(&fill_kernel, library, "fill_u32"));
    CHECK(cudaLibraryGetKernel(&add_kernel, library, "add_u32"));
}

static void start(cudaKernel_t kernel, void **arguments) {
    dim3 grid = {64, 1, 1}, block = {256, 1, 1};
    CHECK(cudaLaunchKernel((const void *)kernel, grid, block, arguments, 0, 0));
}

static void fill(void *to, uint64_t count, uint32_t value) {
    void *arguments[] = {&to, &count, &value};
    start(fill_kernel, arguments);
}

static void add(void *to, void *a, void *b, uint64_t count) {
    void *arguments[] = {&to, &a, &b, &count};
    start(add_kernel, arguments);
}
#else
static struct kernels kernels;

static void load(void) {
    kernels = kernels_load();
}

static void fill(void *to, uint64_t count, uint32_t value) {
    fill_u32(&kernels, to, count, value, 0);
}

static void add(void *to, void *a, void *b, uint64_t count) {
    add_u32(&kernels, to, a, b, count, 0);
}
#endif

/* The sum of `count` words, a power of two, modulo 2^32. Frees `level`. */
static uint32_t reduce(void *level, uint64_t count) {
    uint32_t total;
    while (count > 1) {
        void *next;
        count /= 2;
        CHECK(cudaMalloc(&next, count * 4));
        add(next, level, (uint32_t *)level + count, count);
        CHECK(cudaFree(level));
        level = next;
    }
    CHECK(cudaMemcpy(&total, level, sizeof total, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(level));
    return total;
}

int main(int argc, char **argv) {
    int rounds = argument(argc, argv, 1, 60);
    uint64_t checksum = 0;
    load();
    double started = now_seconds();
    for (int i = 0; i < rounds; i++) {
        uint64_t count = (uint64_t)1 << (14 + i % 6);
        void *input;
        CHECK(cudaMalloc(&input, count * 4));
        fill(input, count, (uint32_t)i);
        uint32_t total = reduce(input, count);
        uint32_t expected = (uint32_t)count * (uint32_t)i;
        if (total != expected) {
            fprintf(stderr, "reduction: %u instead of %u\n", total, expected);
            return 1;
        }
        checksum = mix(checksum, total);
    }
    finish("reduction", checksum, started);
    return 0;
}
