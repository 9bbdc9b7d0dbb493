/* Volumes of cudaMalloc3D and pitched rows, again and again: prints the pitches, and what a round
 * reads back of what it wrote. */
#include "program.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>

#define CHECK(call) REQUIRE((call) == cudaSuccess)

enum { WIDTH = 300, HEIGHT = 20, DEPTH = 5 };

/* Writes every row and reads the last one; the pitch belongs to the memory, so that no row runs
 * into the next. */
static void use(void *pointer, size_t pitch, size_t width, size_t rows, int value) {
    unsigned char last[4 * WIDTH];
    CHECK(cudaMemset2D(pointer, pitch, value, width, rows));
    CHECK(cudaMemcpy(last, (char *)pointer + (rows - 1) * pitch, width, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < width; i++)
        REQUIRE(last[i] == value);
}

static __attribute__((noinline)) void volume(struct cudaExtent extent, int value) {
    struct cudaPitchedPtr made;
    CHECK(cudaMalloc3D(&made, extent));
    REQUIRE(made.xsize == extent.width && made.ysize == extent.height);
    use(made.ptr, made.pitch, extent.width, extent.height * extent.depth, value);
    printf(" volume %zu", made.pitch);
    CHECK(cudaFree(made.ptr));
}

static __attribute__((noinline)) void rows(size_t width, size_t height, int value) {
    void *made;
    size_t pitch;
    CHECK(cudaMallocPitch(&made, &pitch, width, height));
    use(made, pitch, width, height, value);
    printf(" rows %zu", pitch);
    CHECK(cudaFree(made));
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        volume((struct cudaExtent){WIDTH, HEIGHT, DEPTH}, round);
        rows(WIDTH, (size_t)HEIGHT * DEPTH, round + 1);
        volume((struct cudaExtent){4 * WIDTH, HEIGHT, DEPTH}, round + 2);
        printf("\n");
    }
    struct cudaPitchedPtr empty = {(void *)8, 1, 1, 1};
    printf("no depth: %d\n", (int)cudaMalloc3D(&empty, (struct cudaExtent){WIDTH, HEIGHT, 0}));
    printf("nowhere to put it: %d\n",
           (int)cudaMalloc3D(NULL, (struct cudaExtent){WIDTH, HEIGHT, DEPTH}));
    return 0;
}
