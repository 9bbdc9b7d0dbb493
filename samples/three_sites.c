/* A loop that allocates three temporaries of constant size in every round, as generated code does.
 */
#include "sample.h"

int main(int argc, char **argv) {
    int rounds = argument(argc, argv, 1, 100);
    const uint64_t count = 1 << 20;
    struct kernels kernels = kernels_load();
    uint64_t checksum = 0;
    double started = now_seconds();
    for (int i = 0; i < rounds; i++) {
        void *a, *b, *sum;
        CHECK(cudaMalloc(&a, count * 4));
        CHECK(cudaMalloc(&b, count * 4));
        CHECK(cudaMalloc(&sum, 8));
        fill_u32(&kernels, a, count, (uint32_t)i, 0);
        fill_u32(&kernels, b, count, 7, 0);
        add_u32(&kernels, a, a, b, count, 0);
        checksum = mix(checksum, sum_u32(&kernels, a, count, sum, 0));
        CHECK(cudaFree(sum));
        CHECK(cudaFree(b));
        CHECK(cudaFree(a));
    }
    finish("three_sites", checksum, started);
    return 0;
}
