/* Leaves behind what no call ends: a capture in the stream of a thread, or live streams. What they
 * stand in the way of is possible again when their context is reset, or the thread has ended. */
#include "driver/cuda_api.h"
#include "program.h"

#include <pthread.h>
#include <string.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

static CUcontext primary;

static void begin_capture(void) {
    CHECK(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static void reset(void) {
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(cuCtxSetCurrent(primary));
}

static void capture_of_a_context(void) {
    begin_capture();
    reset();
}

static void *capture(void *unused) {
    CHECK(cuCtxSetCurrent(primary));
    begin_capture();
    return unused;
}

static void capture_of_a_thread(void) {
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, capture, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
}

static void streams(void) {
    CUstream made[3];
    for (int i = 0; i < 3; i++)
        CHECK(cuStreamCreate(&made[i], CU_STREAM_NON_BLOCKING));
    reset();
}

int main(int argc, char **argv) {
    CUdeviceptr kept, pointer;
    REQUIRE(argc == 2);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cuMemAlloc_v2(&pointer, 70000));
    CHECK(cuMemFree_v2(pointer));
    if (strcmp(argv[1], "capture_of_a_context") == 0)
        capture_of_a_context();
    else if (strcmp(argv[1], "capture_of_a_thread") == 0)
        capture_of_a_thread();
    else
        streams();
    CHECK(cuMemAlloc_v2(&kept, 4096));
    for (int i = 0; i < 1000; i++) {
        CHECK(cuMemAlloc_v2(&pointer, 70000));
        CHECK(cuMemFree_v2(pointer));
    }
    puts("done");
    return 0;
}
