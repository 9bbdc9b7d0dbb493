/* Many threads whose live blocks together never exceed a share of the device: none of their
 * allocations may fail, whatever is idle, deferred, on its way back to the driver or just being
 * asked for by another thread.
 *
 *     within_memory THREADS STEPS PERCENT MOST [LIFE]
 *
 * With LIFE every other thread has a context of its own, which ends after so many steps; a new one
 * follows.
 * Blocks are multiples of 2 MiB, up to MOST MiB, so that a driver's rounding adds nothing. Both
 * ends of every block are written in a stream of its thread's, and checked before it is freed.
 * Prints how many allocations failed, and how many blocks did not hold what was written to them. */
#include "driver/cuda_api.h"
#include "program.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CHECK(call) REQUIRE((int)(call) == 0)

enum { PAGE = 2 << 20, SLOTS = 6, WORDS = 64, MAX_THREADS = 64 };

struct block {
    CUdeviceptr pointer;
    size_t bytes;
    uint32_t value;
};

struct worker {
    pthread_t thread;
    uint32_t random;
    CUcontext own; /* NULL: it uses the one that most have */
    CUstream stream;
    struct block blocks[SLOTS];
};

static CUcontext context;
static size_t allowed, most_pages;
static int step_count, life;
static atomic_size_t live; /* bytes; those that are being asked for, too */
static atomic_int failed, wrong;

static uint32_t number(struct worker *worker) {
    worker->random = worker->random * 1664525u + 1013904223u;
    return worker->random >> 8;
}

static void write_ends(struct worker *worker, const struct block *block, uint32_t value) {
    CUdeviceptr last = block->pointer + block->bytes - WORDS * sizeof value;
    CHECK(cuMemsetD32Async(block->pointer, value, WORDS, worker->stream));
    CHECK(cuMemsetD32Async(last, value, WORDS, worker->stream));
}

static void free_block(struct worker *worker, struct block *block) {
    uint32_t ends[2];
    CHECK(cuMemcpyDtoHAsync_v2(&ends[0], block->pointer, sizeof ends[0], worker->stream));
    CHECK(cuMemcpyDtoHAsync_v2(&ends[1], block->pointer + block->bytes - sizeof ends[1],
                               sizeof ends[1], worker->stream));
    CHECK(cuStreamSynchronize(worker->stream));
    if (ends[0] != block->value || ends[1] != block->value)
        atomic_fetch_add(&wrong, 1);
    if (number(worker) % 2) /* work that the free has to be ordered after */
        write_ends(worker, block, 0);
    CHECK(cuMemFree_v2(block->pointer));
    atomic_fetch_sub(&live, block->bytes);
    block->pointer = 0;
}

static void fill_block(struct worker *worker, struct block *block) {
    block->bytes = (1 + number(worker) % most_pages) * PAGE;
    if (atomic_fetch_add(&live, block->bytes) + block->bytes > allowed) {
        atomic_fetch_sub(&live, block->bytes);
        return;
    }
    if (cuMemAlloc_v2(&block->pointer, block->bytes) != CUDA_SUCCESS) {
        atomic_fetch_sub(&live, block->bytes);
        atomic_fetch_add(&failed, 1);
        block->pointer = 0;
        return;
    }
    block->value = number(worker);
    write_ends(worker, block, block->value);
}

static void begin(struct worker *worker) {
    if (life && worker->random % 2)
        CHECK(cuCtxCreate_v2(&worker->own, 0, 0));
    else
        CHECK(cuCtxSetCurrent(context));
    CHECK(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
}

static void end(struct worker *worker) {
    for (int i = 0; i < SLOTS; i++)
        if (worker->blocks[i].pointer)
            free_block(worker, &worker->blocks[i]);
    CHECK(cuStreamDestroy_v2(worker->stream));
    if (worker->own)
        CHECK(cuCtxDestroy_v2(worker->own));
}

static void *work(void *argument) {
    struct worker *worker = argument;
    begin(worker);
    for (int i = 0; i < step_count; i++) {
        if (worker->own && i % life == life - 1) {
            end(worker);
            CHECK(cuCtxCreate_v2(&worker->own, 0, 0));
            CHECK(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
        }
        struct block *block = &worker->blocks[number(worker) % SLOTS];
        if (block->pointer)
            free_block(worker, block);
        else
            fill_block(worker, block);
    }
    end(worker);
    return NULL;
}

int main(int argc, char **argv) {
    static struct worker workers[MAX_THREADS];
    size_t available, total;
    REQUIRE(argc == 5 || argc == 6);
    int threads = atoi(argv[1]);
    REQUIRE(threads >= 1 && threads <= MAX_THREADS);
    step_count = atoi(argv[2]);
    most_pages = (size_t)atoi(argv[4]) / 2;
    life = argc == 6 ? atoi(argv[5]) : 0;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemGetInfo_v2(&available, &total));
    allowed = available / 100 * (size_t)atoi(argv[3]) / PAGE * PAGE;
    for (int i = 0; i < threads; i++) {
        workers[i].random = (uint32_t)i + 1;
        REQUIRE(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < threads; i++)
        REQUIRE(pthread_join(workers[i].thread, NULL) == 0);
    printf("failed %d wrong %d\n", atomic_load(&failed), atomic_load(&wrong));
    return 0;
}
