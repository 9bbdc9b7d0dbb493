/* A context ends, by its destruction or a reset, while another thread allocates in it, or frees and
 * waits for its work. All that was its memory is the device's again. */
#include "program.h"

#include "driver/cuda_api.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { TURNS = 20, BYTES = 8 << 20, MOMENT_NS = 2 * 1000 * 1000 };

static CUcontext context;
static sem_t begun, ends;

static void pass_a_moment(void) {
    nanosleep(&(struct timespec){.tv_nsec = MOMENT_NS}, NULL);
}

static void *allocate(void *unused) {
    CUdeviceptr block;
    CHECK(cuCtxSetCurrent(context));
    sem_post(&begun);
    cuMemAlloc_v2(&block, BYTES); /* unless the end is faster */
    return unused;
}

static void *free_block(void *block) {
    CHECK(cuCtxSetCurrent(context));
    sem_post(&begun);
    cuMemFree_v2(*(CUdeviceptr *)block);
    return NULL;
}

/* What the free waits for, which is over once the context is about to end. */
static void go_on_until_the_end(void *unused) {
    (void)unused;
    sem_wait(&ends);
    pass_a_moment();
}

static void begin_context(bool primary) {
    CUdeviceptr block;
    if (primary) {
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
        CHECK(cuCtxSetCurrent(context));
    } else {
        CHECK(cuCtxCreate_v2(&context, 0, 0));
    }
    CHECK(cuMemAlloc_v2(&block, BYTES)); /* what the next ones need is made */
    CHECK(cuMemFree_v2(block));
}

static void end_context(bool primary) {
    CHECK(primary ? cuDevicePrimaryCtxReset_v2(0) : cuCtxDestroy_v2(context));
    if (primary)
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
}

static void turn(bool primary, bool frees) {
    pthread_t thread;
    CUdeviceptr block = 0;
    begin_context(primary);
    if (frees) {
        CHECK(cuMemAlloc_v2(&block, BYTES));
        CHECK(cuLaunchHostFunc(CU_STREAM_LEGACY, go_on_until_the_end, NULL));
    }
    REQUIRE(pthread_create(&thread, NULL, frees ? free_block : allocate, &block) == 0);
    sem_wait(&begun);
    if (frees) {
        pass_a_moment();
        sem_post(&ends);
    }
    end_context(primary);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(int count, char **arguments) {
    size_t left, total;
    REQUIRE(count == 3);
    CHECK(cuInit(0));
    REQUIRE(sem_init(&begun, 0, 0) == 0 && sem_init(&ends, 0, 0) == 0);
    for (int i = 0; i < TURNS; i++)
        turn(!strcmp(arguments[1], "reset"), !strcmp(arguments[2], "free"));
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemGetInfo_v2(&left, &total));
    printf("%zu bytes are lost\n", total - left);
    return 0;
}
