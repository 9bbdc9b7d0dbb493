/* launches LAUNCHES ARGUMENTS BYTES [alone]: launches a kernel so often, with so many arguments of
 * so many bytes each, in which each word is an address of device memory. alone: it allocates that
 * memory before each launch and frees it behind, and has no other. Under callgrind what comes after
 * a warm-up is collected. Prints "operations" and the launches' number. */
#include "null_driver.h"

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_CALLGRIND
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

/* A young program goes the long way more often: see cache_stop.c. */
enum { WARM_UP = 2000, ARGUMENTS = 32, WORDS = 512 };

static void require(CUresult result) {
    if (result != CUDA_SUCCESS)
        exit(1);
}

static void launch(struct null_driver_function *function, void **arguments, bool alone,
                   long times) {
    CUdeviceptr block;
    for (long i = 0; i < times; i++) {
        if (alone)
            require(cuMemAlloc_v2(&block, 4096));
        require(cuLaunchKernel((CUfunction)function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
        if (alone)
            require(cuMemFree_v2(block));
    }
}

int main(int argc, char **argv) {
    CUdeviceptr block;
    static CUdeviceptr words[ARGUMENTS][WORDS];
    void *arguments[ARGUMENTS];
    if (argc < 4 || cuInit(0) != CUDA_SUCCESS || cuMemAlloc_v2(&block, 4096) != CUDA_SUCCESS)
        return 2;
    bool alone = argc > 4;
    if (alone)
        require(cuMemFree_v2(block));
    long times = strtol(argv[1], NULL, 10);
    struct null_driver_function function = {strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10)};
    if (function.arguments > ARGUMENTS || function.bytes > sizeof words[0])
        return 2;
    for (size_t i = 0; i < function.arguments; i++) {
        for (size_t word = 0; word < WORDS; word++)
            words[i][word] = block;
        arguments[i] = words[i];
    }
    launch(&function, arguments, alone, WARM_UP);
    CALLGRIND_START_INSTRUMENTATION;
    launch(&function, arguments, alone, times);
    CALLGRIND_STOP_INSTRUMENTATION;
    printf("operations %ld\n", times);
    return 0;
}
