/* A thread retains the primary context as soon as another has released it for good: what it then
 * allocates, at once and later, is in a context that has nothing of the former one. */
#include "program.h"

#include "driver/cuda_api.h"

#include <pthread.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { TURNS = 20, BYTES = 1 << 20, WORDS = BYTES / 4 };

static pthread_barrier_t meeting;
static int served;

/* Here both allocate. */
__attribute__((noinline)) static void use(void) {
    CUdeviceptr block;
    served += cuMemAlloc_v2(&block, BYTES) == CUDA_SUCCESS &&
              cuMemsetD32_v2(block, 7, WORDS) == CUDA_SUCCESS &&
              cuMemFree_v2(block) == CUDA_SUCCESS;
}

static void *retain_anew(void *unused) {
    CUcontext context;
    for (int i = 0; i < TURNS; i++) {
        unsigned int flags;
        int active;
        pthread_barrier_wait(&meeting);
        do
            CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
        while (active);
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
        CHECK(cuCtxSetCurrent(context));
        use();
        pthread_barrier_wait(&meeting); /* the other's release is over */
        use();
        CHECK(cuCtxSetCurrent(NULL));
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
        pthread_barrier_wait(&meeting);
    }
    return unused;
}

int main(void) {
    CUcontext context;
    pthread_t thread;
    CHECK(cuInit(0));
    REQUIRE(pthread_barrier_init(&meeting, NULL, 2) == 0);
    REQUIRE(pthread_create(&thread, NULL, retain_anew, NULL) == 0);
    for (int i = 0; i < TURNS; i++) {
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
        CHECK(cuCtxSetCurrent(context));
        use();
        CHECK(cuCtxSetCurrent(NULL));
        pthread_barrier_wait(&meeting);
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
        pthread_barrier_wait(&meeting);
        pthread_barrier_wait(&meeting);
    }
    REQUIRE(pthread_join(thread, NULL) == 0);
    printf("served %d of %d times\n", served, 3 * TURNS);
    return 0;
}
