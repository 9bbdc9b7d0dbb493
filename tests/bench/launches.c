/* launches LAUNCHES ARGUMENTS BYTES: launches a kernel so often, with so many arguments of so many
 * bytes each, in which each word is an address of device memory. Under callgrind the launches after
 * a warm-up are collected. Prints "operations" and their number. */
#include "null_driver.h"

#include "driver/cuda_api.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef HAVE_CALLGRIND
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

enum { WARM_UP = 100, ARGUMENTS = 32, WORDS = 512 };

static void launch(struct null_driver_function *function, void **arguments, long times) {
    for (long i = 0; i < times; i++)
        if (cuLaunchKernel((CUfunction)function, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL) !=
            CUDA_SUCCESS)
            exit(1);
}

int main(int argc, char **argv) {
    CUdeviceptr block;
    static CUdeviceptr words[ARGUMENTS][WORDS];
    void *arguments[ARGUMENTS];
    if (argc != 4 || cuInit(0) != CUDA_SUCCESS || cuMemAlloc_v2(&block, 4096) != CUDA_SUCCESS)
        return 2;
    long times = strtol(argv[1], NULL, 10);
    struct null_driver_function function = {strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10)};
    if (function.arguments > ARGUMENTS || function.bytes > sizeof words[0])
        return 2;
    for (size_t i = 0; i < function.arguments; i++) {
        for (size_t word = 0; word < WORDS; word++)
            words[i][word] = block;
        arguments[i] = words[i];
    }
    launch(&function, arguments, WARM_UP);
    CALLGRIND_START_INSTRUMENTATION;
    launch(&function, arguments, times);
    CALLGRIND_STOP_INSTRUMENTATION;
    printf("operations %ld\n", times);
    return 0;
}
