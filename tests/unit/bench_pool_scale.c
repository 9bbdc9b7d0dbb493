/* bench_pool_scale LIVE: operations of the pool with that many live blocks, to be run under
 * callgrind. Prints the number of operations, all of which happen inside measure(). */
#include "fake_driver.h"
#include "pool/pool.h"

#include <stdio.h>
#include <stdlib.h>

enum { OPERATIONS = 20000 };

static struct pool *pool;

static CUdeviceptr allocate(size_t bytes, size_t number) {
    CUdeviceptr pointer = 0;
    struct call_site site = {.frames = {number % 64 + 1}, .depth = 1};
    if (pool_malloc(pool, &pointer, bytes, &site) != CUDA_SUCCESS)
        exit(1);
    return pointer;
}

__attribute__((noinline)) void measure(CUdeviceptr *blocks, size_t count);
void measure(CUdeviceptr *blocks, size_t count) {
    uint32_t seed = 1;
    for (int i = 0; i < OPERATIONS; i++) {
        seed = seed * 1664525u + 1013904223u;
        size_t slot = (size_t)(seed >> 8) % count;
        if (pool_free(pool, blocks[slot]) != CUDA_SUCCESS)
            exit(1);
        blocks[slot] = allocate(512 + slot % 100 * 512, slot);
    }
}

int main(int argc, char **argv) {
    size_t count = argc > 1 ? (size_t)atol(argv[1]) : 1000;
    const struct pool_config config = {.reuse_ratio = 2, .steal = true};
    CUdeviceptr *blocks = calloc(count, sizeof *blocks);
    fake_reset((uint64_t)1 << 40);
    pool = pool_create(&config, fake_driver());
    if (!blocks || !pool)
        exit(1);
    for (size_t i = 0; i < count; i++)
        blocks[i] = allocate(512 + i % 100 * 512, i);
    measure(blocks, count);
    printf("%d\n", 2 * OPERATIONS);
    free(blocks);
    pool_destroy(pool);
    return 0;
}
