/* Pinned host memory through the runtime: "loop", the same size allocated and freed again and
 * again; "limit", on a machine that lets 64 MiB be pinned; "first_use", which a pool must let
 * nothing overtake. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <string.h>

#define CHECK(call) REQUIRE((int)(call) == 0)

enum { MIB = 1 << 20, LOOP_BYTES = 64 * MIB };

static void loop(void) {
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *memory;
        unsigned int flags;
        CHECK(cudaHostAlloc((void **)&memory, LOOP_BYTES, cudaHostAllocDefault));
        memory[0] = memory[LOOP_BYTES - 1] = (unsigned char)round;
        CHECK(cuMemHostGetFlags(&flags, memory));
        CHECK(cudaFreeHost(memory));
    }
    printf("done\n");
}

/* What is freed leaves room for memory of another kind, for registered memory, and for all of it.
 */
static void limit(void) {
    static char own[40 * MIB];
    void *memory;
    CHECK(cudaMallocHost(&memory, 40 * MIB));
    printf("too much: %d\n", (int)cudaHostAlloc(&memory, 40 * MIB, cudaHostAllocWriteCombined));
    cudaGetLastError();
    CHECK(cudaFreeHost(memory));
    CHECK(cudaHostAlloc(&memory, 40 * MIB, cudaHostAllocWriteCombined));
    CHECK(cudaFreeHost(memory));
    CHECK(cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
    CHECK(cudaHostUnregister(own));
    CHECK(cudaHostAlloc(&memory, 64 * MIB, cudaHostAllocDefault));
    printf("last error %d\n", (int)cudaGetLastError());
}

/* A kernel writes to memory that is freed while it runs. Its next owner finds what it puts there.
 */
static void first_use(void) {
    CUmodule module;
    CUfunction spin, fill;
    uint64_t busy = 20 * 1000 * 1000, count = 1024;
    uint32_t *memory, seven = 7;
    int wrong = 0;
    CHECK(cudaFree(0));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&spin, module, "spin_ns"));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    for (int round = 0; round < 5; round++) {
        CHECK(cudaMallocHost((void **)&memory, count * 4));
        for (uint64_t i = 0; i < count; i++)
            memory[i] = 1;
        for (volatile int pause = 0; pause < 1000000; pause++) {
        }
        for (uint64_t i = 0; i < count; i++)
            wrong += memory[i] != 1;
        CHECK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&busy}, NULL));
        CHECK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&memory, &count, &seven},
                             NULL));
        CHECK(cudaFreeHost(memory));
    }
    printf("wrong %d\n", wrong);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 2);
    if (strcmp(argv[1], "loop") == 0)
        loop();
    else if (strcmp(argv[1], "limit") == 0)
        limit();
    else
        first_use();
    return 0;
}
