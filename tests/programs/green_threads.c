/* Threads that make green contexts, allocate there, and destroy them while their blocks live on,
 * beside threads that allocate in the primary context. What each block holds, where it begins and
 * how large it is are looked at again and again; at last nearly all of the device is allocated.
 * Prints what was wrong, natively and under the pool nothing. Arguments: threads, steps, seed. */
#include "green.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { KEPT = 24, THREADS_MAX = 16, PARTS = 16, WORD = 4 };

struct block {
    CUdeviceptr pointer; /* 0: none */
    size_t bytes;
    unsigned value; /* what its words are set to */
};

struct thread {
    unsigned number, random;
    CUgreenCtx green; /* NULL: the primary context is current */
    struct block kept[KEPT];
};

static CUcontext primary;
static int steps;
static atomic_int wrong_contents, wrong_ranges, refused;

static unsigned draw(struct thread *thread, unsigned below) {
    thread->random = thread->random * 1664525U + 1013904223U;
    return (thread->random >> 8) % below;
}

static void look_at(const struct block *block) {
    CUdeviceptr base = 0;
    size_t bytes = 0, last = block->bytes / WORD * WORD - WORD;
    unsigned words[2] = {0};
    refused += cuMemGetAddressRange_v2(&base, &bytes, block->pointer) != CUDA_SUCCESS;
    wrong_ranges += base != block->pointer || bytes != block->bytes;
    refused += cuMemcpyDtoH_v2(&words[0], block->pointer, WORD) != CUDA_SUCCESS;
    refused += cuMemcpyDtoH_v2(&words[1], block->pointer + last, WORD) != CUDA_SUCCESS;
    wrong_contents += words[0] != block->value || words[1] != block->value;
}

static void allocate(struct thread *thread, struct block *block) {
    block->bytes = draw(thread, 2) ? 100 + draw(thread, 100000) : WORD + draw(thread, 3000000);
    block->value = thread->number << 24 | draw(thread, 1 << 24);
    if (cuMemAlloc_v2(&block->pointer, block->bytes) != CUDA_SUCCESS) {
        block->pointer = 0;
        refused++;
        return;
    }
    refused += cuMemsetD32_v2(block->pointer, block->value, block->bytes / WORD) != CUDA_SUCCESS;
    refused += cuCtxSynchronize() != CUDA_SUCCESS;
}

static void free_block(struct block *block) {
    refused += cuMemFree_v2(block->pointer) != CUDA_SUCCESS;
    block->pointer = 0;
}

static void enter_green(struct thread *thread) {
    CHECK(cuCtxSetCurrent(make_green(&thread->green)));
}

static void leave_green(struct thread *thread) {
    CHECK(cuGreenCtxDestroy(thread->green));
    CHECK(cuCtxSetCurrent(primary));
    thread->green = NULL;
    for (int i = 0; i < KEPT; i++)
        if (thread->kept[i].pointer)
            look_at(&thread->kept[i]);
}

static void step(struct thread *thread) {
    unsigned chance = draw(thread, 100);
    if (thread->green && chance < 12) {
        leave_green(thread);
    } else if (!thread->green && thread->number % 2 == 0 && chance < 10) {
        enter_green(thread);
    } else {
        struct block *block = &thread->kept[draw(thread, KEPT)];
        if (!block->pointer)
            allocate(thread, block);
        else if (chance < 70)
            free_block(block);
        else
            look_at(block);
    }
}

static void *run_thread(void *data) {
    struct thread *thread = data;
    CHECK(cuCtxSetCurrent(primary));
    for (int i = 0; i < steps; i++)
        step(thread);
    if (thread->green)
        leave_green(thread);
    for (int i = 0; i < KEPT; i++)
        if (thread->kept[i].pointer)
            free_block(&thread->kept[i]);
    return NULL;
}

/* All but one of the device's PARTS. */
static int count_large(void) {
    size_t left, total;
    CUdeviceptr large[PARTS];
    int count = 0;
    CHECK(cuMemGetInfo_v2(&left, &total));
    while (count < PARTS - 1 && cuMemAlloc_v2(&large[count], total / PARTS) == CUDA_SUCCESS)
        count++;
    for (int i = 0; i < count; i++)
        CHECK(cuMemFree_v2(large[i]));
    return count;
}

int main(int argc, char **argv) {
    static struct thread threads[THREADS_MAX];
    pthread_t running[THREADS_MAX];
    REQUIRE(argc == 4);
    int count = atoi(argv[1]);
    REQUIRE(count > 0 && count <= THREADS_MAX);
    steps = atoi(argv[2]);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    for (int i = 0; i < count; i++) {
        threads[i] = (struct thread){.number = (unsigned)i,
                                     .random = (unsigned)(atoi(argv[3]) * 977 + i * 7919)};
        REQUIRE(pthread_create(&running[i], NULL, run_thread, &threads[i]) == 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(running[i], NULL);
    printf("%d calls refused, contents of %d and ranges of %d wrong\n", refused, wrong_contents,
           wrong_ranges);
    printf("%d of %d parts allocated\n", count_large(), PARTS - 1);
    return 0;
}
