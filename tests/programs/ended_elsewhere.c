/* ended_elsewhere ENDS: threads allocate and free in two contexts, each of which a further thread
 * ends and makes anew so many times. An allocation may find its thread's current context gone, or
 * see it go, which is the program's fault: it fails, or its block is forgotten. All other blocks
 * must be nobody else's, and their frees succeed. Prints how many were not, and how many frees
 * failed. */
#include "program.h"

#include "driver/cuda_api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)
enum { CONTEXTS = 2, THREADS = 12, MOST = 60, TURNS = 20, PAUSE_NS = 2 * 1000 * 1000 };
static const size_t small = 4000, large = 4 << 20, limit = 160 << 20;

struct block {
    CUdeviceptr pointer;
    size_t size;
    unsigned number, life; /* its context, and which of that number's */
};

/* Invariant: `handle` and `life` change under the write lock alone. Under `mutex`: the live blocks.
 */
struct place {
    CUcontext handle;
    atomic_uint life;
    pthread_rwlock_t lock;
    pthread_mutex_t mutex;
    struct block live[THREADS * MOST];
    int count;
};

static struct place places[CONTEXTS];
static atomic_long overlaps, failed_frees;
static atomic_size_t held;
static atomic_int running = CONTEXTS;
static int ends;

static uint32_t next_random(uint32_t *seed) {
    return *seed = *seed * 1664525 + 1013904223, *seed >> 8;
}

static void begins(struct place *place, const struct block *block) {
    pthread_mutex_lock(&place->mutex);
    for (int i = 0; i < place->count; i++)
        overlaps += block->pointer < place->live[i].pointer + place->live[i].size &&
                    place->live[i].pointer < block->pointer + block->size;
    place->live[place->count++] = *block;
    pthread_mutex_unlock(&place->mutex);
}

static void is_over(struct place *place, CUdeviceptr pointer) {
    int i = 0;
    pthread_mutex_lock(&place->mutex);
    while (place->live[i].pointer != pointer)
        i++;
    place->live[i] = place->live[--place->count];
    pthread_mutex_unlock(&place->mutex);
}

/* Whether the context is still the one in which the call was made. Its lock is held on entry and
 * return, not in the call. */
static bool allocate(struct place *place, struct block *block) {
    unsigned life = place->life;
    pthread_rwlock_unlock(&place->lock);
    CUresult result = cuMemAlloc_v2(&block->pointer, block->size);
    pthread_rwlock_rdlock(&place->lock);
    if (place->life != life)
        CHECK(cuCtxSetCurrent(place->handle));
    block->life = life;
    return result == CUDA_SUCCESS && place->life == life;
}

static void free_if_alive(struct place *place, const struct block *block) {
    held -= block->size;
    if (block->life != place->life)
        return;
    is_over(place, block->pointer);
    failed_frees += cuMemFree_v2(block->pointer) != CUDA_SUCCESS;
}

static void *work(void *data) {
    uint32_t seed = (uint32_t)(uintptr_t)data;
    struct block own[MOST];
    int count = 0;
    while (running) {
        unsigned number = next_random(&seed) % CONTEXTS;
        struct place *place = &places[number];
        pthread_rwlock_rdlock(&place->lock);
        CHECK(cuCtxSetCurrent(place->handle));
        for (int turn = 0; turn < TURNS; turn++) {
            struct block block = {.number = number};
            block.size = 1 + next_random(&seed) % (next_random(&seed) % 4 ? small : large);
            if (next_random(&seed) % 2 && count < MOST && held < limit) {
                if (!allocate(place, &block))
                    continue;
                held += block.size;
                begins(place, &block);
                own[count++] = block;
            } else if (count) {
                int i = (int)(next_random(&seed) % (unsigned)count);
                block = own[i];
                if (block.number == number || block.life != places[block.number].life) {
                    own[i] = own[--count];
                    free_if_alive(&places[block.number], &block);
                }
            }
        }
        pthread_rwlock_unlock(&place->lock);
    }
    return NULL;
}

static void *end_and_begin(void *data) {
    struct place *place = data;
    for (int i = 0; i < ends; i++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        pthread_rwlock_wrlock(&place->lock);
        CHECK(cuCtxDestroy_v2(place->handle));
        CHECK(cuCtxCreate_v2(&place->handle, 0, 0));
        place->life++;
        place->count = 0;
        pthread_rwlock_unlock(&place->lock);
    }
    running--;
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS], enders[CONTEXTS];
    pthread_rwlockattr_t writers_first;
    ends = argc > 1 ? atoi(argv[1]) : ROUNDS;
    CHECK(cuInit(0));
    pthread_rwlockattr_init(&writers_first);
    pthread_rwlockattr_setkind_np(&writers_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    for (int i = 0; i < CONTEXTS; i++) {
        pthread_rwlock_init(&places[i].lock, &writers_first);
        pthread_mutex_init(&places[i].mutex, NULL);
        CHECK(cuCtxCreate_v2(&places[i].handle, 0, 0));
    }
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < CONTEXTS; i++)
        REQUIRE(pthread_create(&enders[i], NULL, end_and_begin, &places[i]) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < CONTEXTS; i++)
        pthread_join(enders[i], NULL);
    printf("overlaps %ld failed frees %ld\n", overlaps, failed_frees);
    return 0;
}
