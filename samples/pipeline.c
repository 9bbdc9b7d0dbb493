/* An image pipeline in the manner of edge detection: stages with temporaries of several sizes,
 * pitched rows among them, run image after image. */
#include "sample.h"

static void *stage(const struct kernels *kernels, void *input, uint64_t count, uint32_t weight) {
    void *weights, *output;
    CHECK(cudaMalloc(&weights, count * 4));
    CHECK(cudaMalloc(&output, count * 4));
    fill_u32(kernels, weights, count, weight, 0);
    add_u32(kernels, output, input, weights, count, 0);
    CHECK(cudaFree(weights));
    CHECK(cudaFree(input));
    return output;
}

int main(int argc, char **argv) {
    int images = argument(argc, argv, 1, 60);
    const size_t width = 1000, height = 600;
    static uint32_t rows[1000 * 600];
    struct kernels kernels = kernels_load();
    uint64_t checksum = 0;
    double started = now_seconds();
    for (int image = 0; image < images; image++) {
        void *pitched, *packed, *sum;
        size_t pitch;
        for (size_t i = 0; i < width * height; i++)
            rows[i] = (uint32_t)(i * 31 + (size_t)image);
        CHECK(cudaMallocPitch(&pitched, &pitch, width * 4, height));
        CHECK(cudaMemcpy2D(pitched, pitch, rows, width * 4, width * 4, height,
                           cudaMemcpyHostToDevice));
        CHECK(cudaMalloc(&packed, width * height * 4));
        CHECK(cudaMemcpy2D(packed, width * 4, pitched, pitch, width * 4, height,
                           cudaMemcpyDeviceToDevice));
        CHECK(cudaFree(pitched));
        for (uint32_t i = 1; i <= 4; i++)
            packed = stage(&kernels, packed, width * height, i * 10);
        CHECK(cudaMalloc(&sum, 8));
        checksum = mix(checksum, sum_u32(&kernels, packed, width * height, sum, 0));
        CHECK(cudaFree(sum));
        CHECK(cudaFree(packed));
    }
    finish("pipeline", checksum, started);
    return 0;
}
