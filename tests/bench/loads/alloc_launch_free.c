/* A loop of malloc, launch and free: alloc_launch_free FORM BYTES KERNEL_NS HOST_NS ROUNDS.
 * In every round the host is busy with work of its own for HOST_NS after the free: it
 * prepares the next, so to speak.
 *
 * FORM is what else the program has or does:
 *   alone   nothing: the freed block is the context's last
 *   beside  another block lives all the while
 *   stream  another block lives, and the kernel runs in a stream of the program's own
 *   read    another block lives, and the host reads 8 bytes of the result in every round
 *
 * Prints, for the rounds and the end of their work: wall-clock seconds. */
#include "../../../samples/sample.h"

#include <string.h>

enum { WARM_UP = 10 };

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(
            stderr,
            "usage: alloc_launch_free alone|beside|stream|read BYTES KERNEL_NS HOST_NS ROUNDS\n");
        return 2;
    }
    const char *form = argv[1];
    size_t bytes = strtoull(argv[2], NULL, 10);
    uint64_t kernel_ns = strtoull(argv[3], NULL, 10), word;
    double host_seconds = (double)strtoull(argv[4], NULL, 10) * 1e-9;
    int rounds = atoi(argv[5]);
    struct kernels kernels = kernels_load();
    cudaStream_t stream = NULL;
    void *beside = NULL;
    if (strcmp(form, "alone") != 0)
        CHECK(cudaMalloc(&beside, 1 << 20));
    if (strcmp(form, "stream") == 0)
        CHECK(cudaStreamCreate(&stream));
    double started = 0;
    for (int i = -WARM_UP; i < rounds; i++) {
        void *block;
        if (i == 0) {
            CHECK(cudaDeviceSynchronize());
            started = now_seconds();
        }
        CHECK(cudaMalloc(&block, bytes));
        launch(kernels.spin, (void *[]){&kernel_ns}, stream);
        if (strcmp(form, "read") == 0)
            CHECK(cudaMemcpy(&word, block, sizeof word, cudaMemcpyDeviceToHost));
        CHECK(cudaFree(block));
        for (double until = now_seconds() + host_seconds; now_seconds() < until;)
            continue;
    }
    CHECK(cudaDeviceSynchronize());
    printf("seconds %.9f\n", now_seconds() - started);
    if (stream)
        CHECK(cudaStreamDestroy(stream));
    if (beside)
        CHECK(cudaFree(beside));
    return 0;
}
