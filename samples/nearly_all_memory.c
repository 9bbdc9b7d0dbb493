/* Allocates many blocks, frees them all, then asks for nearly all of the device in one block: a
 * cache that does not let go would fail this program, which by itself does not. */
#include "sample.h"

enum { BLOCKS = 64 };

int main(void) {
    struct kernels kernels = kernels_load();
    void *blocks[BLOCKS], *all, *sum;
    size_t available, total;
    double started = now_seconds();
    CHECK(cudaMemGetInfo(&available, &total));
    size_t each = available / (BLOCKS + 16);
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(cudaMalloc(&blocks[i], each));
        fill_u32(&kernels, blocks[i], 256, (uint32_t)i, 0);
    }
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cudaFree(blocks[i]));
    size_t after;
    CHECK(cudaMemGetInfo(&after, &total));
    CHECK(cudaMalloc(&sum, 8));
    size_t nearly_all = available / 100 * 97;
    CHECK(cudaMalloc(&all, nearly_all));
    fill_u32(&kernels, all, 4096, 9, 0);
    uint64_t checksum = mix(after >= nearly_all, sum_u32(&kernels, all, 4096, sum, 0));
    CHECK(cudaFree(all));
    CHECK(cudaFree(sum));
    finish("nearly_all_memory", checksum, started);
    return 0;
}
