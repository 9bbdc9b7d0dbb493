/* Frees memory as the runtime of GCC's OpenACC does: in a stream's callback, where CUDA permits no
 * call. There it asks for the block's range first; told that it may not, it leaves the free to the
 * thread that allocates next. Any other answer ends the program. */
#include "driver/cuda_api.h"
#include "program.h"

#include "../../samples/kernels.h"

#include <pthread.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { QUEUES = 2, WORDS = 1000 };

struct put_off {
    CUdeviceptr pointer;
    struct put_off *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct put_off *list;
static int count;

static void put_off(CUdeviceptr pointer) {
    struct put_off *one = malloc(sizeof *one);
    REQUIRE(one);
    pthread_mutex_lock(&lock);
    *one = (struct put_off){pointer, list};
    list = one;
    count++;
    pthread_mutex_unlock(&lock);
}

static void release(CUdeviceptr pointer) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult result = cuMemGetAddressRange_v2(&base, &bytes, pointer);
    if (result == CUDA_ERROR_NOT_PERMITTED) {
        put_off(pointer);
        return;
    }
    REQUIRE(result == CUDA_SUCCESS && base == pointer && bytes);
    CHECK(cuMemFree_v2(pointer));
}

static int release_put_off(void) {
    int released = 0;
    pthread_mutex_lock(&lock);
    struct put_off *one = list, *next;
    list = NULL;
    pthread_mutex_unlock(&lock);
    for (; one; one = next, released++) {
        next = one->next;
        release(one->pointer);
        free(one);
    }
    return released;
}

static int released;

static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr pointer = 0;
    released += release_put_off();
    CHECK(cuMemAlloc_v2(&pointer, bytes));
    return pointer;
}

/* The blocks of one region that runs beside the host. */
struct region {
    CUdeviceptr arguments, data;
};

static void region_ended(CUstream stream, CUresult status, void *data) {
    struct region *region = data;
    (void)stream;
    CHECK(status);
    release(region->arguments);
    release(region->data);
    free(region);
}

static CUfunction fill;

/* Some sizes that come again, as in a loop of a program's. */
static size_t words(int round) {
    return (size_t)WORDS << (round % 3 * 4);
}

static uint32_t seen[ROUNDS];

static void run_beside(CUstream queue, int round) {
    uint64_t number = words(round);
    uint32_t value = (uint32_t)round;
    struct region *region = malloc(sizeof *region);
    REQUIRE(region);
    region->data = allocate(number * sizeof value);
    region->arguments = allocate(3 * sizeof number);
    void *arguments[] = {&region->data, &number, &value};
    CHECK(cuMemcpyHtoDAsync_v2(region->arguments, arguments, sizeof arguments, queue));
    CHECK(cuLaunchKernel(fill, 4, 1, 1, 32, 1, 1, 0, queue, arguments, NULL));
    CHECK(cuMemcpyDtoHAsync_v2(&seen[round], region->data + (number - 1) * sizeof value,
                               sizeof value, queue));
    CHECK(cuStreamAddCallback(queue, region_ended, region, 0));
}

/* While the others run, and with a free that waits for all of them. */
static void run_alone(int round) {
    uint64_t number = words(round);
    uint32_t value = (uint32_t)round + ROUNDS, last = 0;
    CUdeviceptr data = allocate(number * sizeof value);
    void *arguments[] = {&data, &number, &value};
    CHECK(cuLaunchKernel(fill, 4, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
    CHECK(cuStreamSynchronize(NULL));
    CHECK(cuMemcpyDtoH_v2(&last, data + (number - 1) * sizeof value, sizeof last));
    REQUIRE(last == value);
    release(data);
}

int main(void) {
    CUcontext context;
    CUmodule module;
    CUstream queues[QUEUES];
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuModuleLoadData(&module, sample_kernels_ptx));
    CHECK(cuModuleGetFunction(&fill, module, "fill_u32"));
    for (int i = 0; i < QUEUES; i++)
        CHECK(cuStreamCreate(&queues[i], CU_STREAM_DEFAULT));
    for (int round = 0; round < ROUNDS; round++) {
        run_beside(queues[round % QUEUES], round);
        if (round % 4 == 3)
            run_alone(round);
    }
    for (int i = 0; i < QUEUES; i++)
        CHECK(cuStreamSynchronize(queues[i]));
    released += release_put_off();
    for (int round = 0; round < ROUNDS; round++)
        REQUIRE(seen[round] == (uint32_t)round);
    printf("put off %d, released %d\n", count, released);
    return 0;
}
