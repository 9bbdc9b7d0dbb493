/* resets_beside_threads RESETS: the device is reset again and again while threads retain its
 * context, allocate and free in it. All that was their memory is the device's again. */
#include "driver/cuda_api.h"
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { THREADS = 2, BLOCKS = 5, STEP = 60000, PAUSE_NS = 3 * 1000 * 1000 };

static atomic_bool is_over;

/* A reset may come between any two calls, so any of them may fail. */
static void *allocate(void *unused) {
    while (!atomic_load(&is_over)) {
        CUcontext primary;
        CUdeviceptr blocks[BLOCKS];
        if (cuDevicePrimaryCtxRetain(&primary, 0) != CUDA_SUCCESS)
            continue;
        cuCtxSetCurrent(primary);
        for (size_t i = 0; i < BLOCKS; i++)
            if (cuMemAlloc_v2(&blocks[i], (i + 1) * STEP) != CUDA_SUCCESS)
                blocks[i] = 0;
        for (size_t i = 0; i < BLOCKS; i++)
            cuMemFree_v2(blocks[i]);
        cuCtxSetCurrent(NULL);
        cuDevicePrimaryCtxRelease_v2(0);
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    CUcontext context;
    size_t left, total;
    REQUIRE(argc == 2);
    CHECK(cuInit(0));
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, allocate, NULL) == 0);
    for (int i = atoi(argv[1]); i; i--) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        cuDevicePrimaryCtxReset_v2(0);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    cuDevicePrimaryCtxReset_v2(0);
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemGetInfo_v2(&left, &total));
    printf("%zu bytes are lost\n", total - left);
    return 0;
}
