/* Resets the device again and again while another thread allocates and frees. What this one has
 * allocated after a reset is its own: the other's calls and these do not meet, but for the reset
 * itself. */
#include "program.h"

#include "driver/cuda_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { RESETS = 50, BYTES = 1 << 20, WORDS = BYTES / 4 };

static CUcontext primary;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_over;

/* The one place of the code that both allocate in: a tail call would return to its callers, which
 * are two places. */
__attribute__((noinline)) static CUresult get(CUdeviceptr *block) {
    CUresult result = cuMemAlloc_v2(block, BYTES);
    __asm__ volatile("");
    return result;
}

static void *allocate_all_the_time(void *data) {
    while (!atomic_load(&is_over)) {
        CUdeviceptr block;
        pthread_mutex_lock(&turn);
        cuCtxSetCurrent(primary);
        if (get(&block) == CUDA_SUCCESS)
            cuMemFree_v2(block); /* unless a reset was faster */
        pthread_mutex_unlock(&turn);
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000},
                  NULL); /* most resets meet none of these */
    }
    return data;
}

int main(void) {
    pthread_t thread;
    int served = 0;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    REQUIRE(pthread_create(&thread, NULL, allocate_all_the_time, NULL) == 0);
    for (int i = 0; i < RESETS; i++) {
        CUdeviceptr block;
        CHECK(cuDevicePrimaryCtxReset_v2(0));
        pthread_mutex_lock(&turn);
        CHECK(cuCtxSetCurrent(primary));
        served += get(&block) == CUDA_SUCCESS && cuMemsetD32_v2(block, 7, WORDS) == CUDA_SUCCESS &&
                  cuMemFree_v2(block) == CUDA_SUCCESS;
        pthread_mutex_unlock(&turn);
    }
    atomic_store(&is_over, true);
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("served after %d of %d resets\n", served, RESETS);
    return 0;
}
