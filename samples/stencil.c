/* A time-stepping loop whose every step allocates its temporaries, on a stream of its own. */
#include "sample.h"

int main(int argc, char **argv) {
    int steps = argument(argc, argv, 1, 200);
    const uint64_t count = 1 << 19;
    struct kernels kernels = kernels_load();
    cudaStream_t stream;
    void *field;
    double started = now_seconds();
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&field, count * 4));
    fill_u32(&kernels, field, count, 1, stream);
    for (int i = 0; i < steps; i++) {
        void *left, *right, *next;
        CHECK(cudaMalloc(&left, count * 4));
        CHECK(cudaMalloc(&right, count * 4));
        CHECK(cudaMalloc(&next, count * 4));
        fill_u32(&kernels, left, count, (uint32_t)i, stream);
        add_u32(&kernels, right, left, field, count, stream);
        add_u32(&kernels, next, right, field, count, stream);
        CHECK(cudaFree(left));
        CHECK(cudaFree(right));
        CHECK(cudaFree(field));
        field = next;
    }
    void *sum;
    CHECK(cudaMalloc(&sum, 8));
    uint64_t checksum = mix(0, sum_u32(&kernels, field, count, sum, stream));
    CHECK(cudaFree(sum));
    CHECK(cudaFree(field));
    CHECK(cudaStreamDestroy(stream));
    finish("stencil", checksum, started);
    return 0;
}
