/* A thread whose stack is small makes the program's first calls, allocates and frees, also when the
 * device is out of memory. Prints how many bytes of its stack were used. */
#include "driver/cuda_api.h"
#include "program.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 64 << 10, PAINT = 0xab, MIB = 1 << 20 };

#define CHECK(call) REQUIRE((int)(call) == 0)

static void *run(void *state) {
    CUcontext context;
    size_t available, total, pitch;
    CUdeviceptr plain, pitched, all;
    void *host;
    (void)state;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(cuMemAlloc_v2(&plain, MIB));
        CHECK(cuMemAllocPitch_v2(&pitched, &pitch, 1000, 10, 4));
        CHECK(cuMemAllocHost_v2(&host, MIB));
        CHECK(cuMemFree_v2(plain));
        CHECK(cuMemFree_v2(pitched));
        CHECK(cuMemFreeHost(host));
    }
    CHECK(cuMemGetInfo_v2(&available, &total));
    CHECK(cuMemAlloc_v2(&all, available));
    REQUIRE(cuMemAlloc_v2(&plain, 64 * MIB) == CUDA_ERROR_OUT_OF_MEMORY);
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    unsigned char *stack =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(stack != MAP_FAILED);
    memset(stack, PAINT, SIZE);
    pthread_attr_init(&attributes);
    REQUIRE(pthread_attr_setstack(&attributes, stack, SIZE) == 0);
    REQUIRE(pthread_create(&thread, &attributes, run, NULL) == 0);
    REQUIRE(pthread_join(thread, NULL) == 0);
    size_t unused = 0;
    while (unused < SIZE && stack[unused] == PAINT)
        unused++;
    printf("%zu\n", SIZE - unused);
    return 0;
}
