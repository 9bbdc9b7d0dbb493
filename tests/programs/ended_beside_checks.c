/* Two threads allocate and free in a context that a third one ends again and again meanwhile:
 * device 0's primary one, which it resets ("reset"), or one that it makes and destroys ("destroy").
 * What the two are answered is chance; that the process lives on is not. Or each thread allocates
 * and frees in a context of its own, which some destroy again and again ("own"): all is served. */
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

/* Half of the blocks are left to the end of the context. */
static void use_own_context(unsigned *seed) {
    CUcontext own;
    CUdeviceptr blocks[2 * BLOCKS];
    CHECK(cuCtxCreate_v2(&own, 0, 0));
    for (int i = 0; i < 2 * BLOCKS; i++) {
        *seed = *seed * 1103515245 + 12345;
        unsigned most = *seed >> 4 & 1 ? MOST / 16 : 8 * MOST;
        CHECK(cuMemAlloc_v2(&blocks[i], (*seed >> 8) % most + 1));
    }
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemFree_v2(blocks[i]));
    CHECK(cuCtxDestroy_v2(own));
}

static void *use_own_contexts(void *data) {
    for (int i = 0; i < ENDS; i++)
        use_own_context(data);
    return NULL;
}

static int use_own_contexts_beside(void) {
    unsigned seeds[] = {5, 6, 7, 8};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, use_own_contexts, &seeds[i]) == 0);
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_join(threads[i], NULL) == 0);
    puts("served");
    return 0;
}

int main(int count, char **words) {
    bool resets = count > 1 && !strcmp(words[1], "reset");
    unsigned seeds[] = {5, 6};
    pthread_t threads[2];
    CHECK(cuInit(0));
    if (count > 1 && !strcmp(words[1], "own"))
        return use_own_contexts_beside();
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
