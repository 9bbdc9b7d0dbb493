/* Two threads allocate and free in a context that a third one ends again and again meanwhile:
 * device 0's primary one, which it resets ("reset"), or one that it makes and destroys ("destroy").
 * What the two are answered is chance; that the process lives on is not. */
#include "program.h"

#include "driver/cuda_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { ENDS = 60, BLOCKS = 5, MOST = 300000, PAUSE_NS = 3000000 };

static atomic_bool is_over;
static _Atomic(CUcontext) made; /* NULL: the primary one is meant */
static atomic_int served;

static void allocate_and_free(unsigned *seed) {
    CUdeviceptr blocks[BLOCKS];
    int count = 0;
    for (int i = 0; i < BLOCKS; i++) {
        *seed = *seed * 1103515245 + 12345;
        count += cuMemAlloc_v2(&blocks[count], (*seed >> 8) % MOST + 1) == CUDA_SUCCESS;
    }
    for (int i = 0; i < count; i++)
        served += cuMemFree_v2(blocks[i]) == CUDA_SUCCESS;
}

static void *use_context(void *data) {
    unsigned *seed = data;
    while (!atomic_load(&is_over)) {
        CUcontext context = atomic_load(&made);
        bool primary = !context;
        if (primary && cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS)
            continue;
        if (cuCtxSetCurrent(context) == CUDA_SUCCESS)
            allocate_and_free(seed);
        cuCtxSetCurrent(NULL);
        if (primary)
            cuDevicePrimaryCtxRelease_v2(0);
    }
    return NULL;
}

static void make(void) {
    CUcontext context;
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    atomic_store(&made, context);
}

int main(int count, char **words) {
    bool resets = count > 1 && !strcmp(words[1], "reset");
    unsigned seeds[] = {5, 6};
    pthread_t threads[2];
    CHECK(cuInit(0));
    if (!resets)
        make();
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&threads[i], NULL, use_context, &seeds[i]) == 0);
    for (int i = 0; i < ENDS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        if (resets) {
            CHECK(cuDevicePrimaryCtxReset_v2(0));
        } else {
            CUcontext former = atomic_load(&made);
            make();
            CHECK(cuCtxDestroy_v2(former));
        }
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    printf("%s\n", served ? "served" : "never served");
    return 0;
}
