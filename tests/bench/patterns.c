/* patterns PATTERN THREADS SECONDS [same]: allocates and frees in several threads at once, each
 * with call sites of its own, for that long. Prints lines "word number": pairs (of malloc and free,
 * of all threads), seconds, cpu_seconds (of all threads).
 *
 * PATTERN:
 *
 * own: each thread keeps 32 blocks and replaces a random one each time
 *
 * larson: the same with 1,024 blocks; after each 1,024 pairs a thread goes on with those of the
 * next one
 *
 * xmalloc: each thread allocates 64 blocks and hands them to the next one, which frees them
 *
 * nothing: the loop of `own` without allocations: what the machine itself makes of more threads
 *
 * same: the same hand-overs, of which the same is read and written, but each thread replaces, or
 * frees, blocks of its own. In all of them one block stays live: a free that leaves the context
 * without any has to wait. */
#include "sites.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_THREADS = 16,
    OWN_SITES = SITES / MOST_THREADS,
    OWN_BLOCKS = 32,
    LARSON_BLOCKS = 1024,
    BATCH = 64,
    QUEUE = 4, /* batches under way between two threads */
    WARM_UP = 4096,
    LINE = 64
};

struct block {
    uintptr_t pointer;
    size_t bytes;
};

struct batch {
    struct block blocks[BATCH];
};

/* From one thread to the next. Invariant: taken <= put <= taken + QUEUE. */
struct queue {
    _Alignas(LINE) _Atomic size_t put;
    _Alignas(LINE) _Atomic size_t taken;
    struct batch *batches[QUEUE];
};

struct worker {
    _Alignas(LINE) unsigned number;
    uint32_t random;
    size_t pairs;
    uintptr_t handed_over;
    size_t made; /* batches, in turns: one is free again when QUEUE more were taken */
    pthread_t thread;
    struct batch batches[2 * QUEUE];
    struct block blocks[LARSON_BLOCKS];
    struct block kept[LARSON_BLOCKS]; /* larson: what no other thread gets */
    unsigned rounds;
    struct queue queue; /* to the next thread */
};

static struct worker workers[MOST_THREADS];
static unsigned count;
static bool same;
static atomic_bool stop;
static pthread_barrier_t started, round_over;
static bool last_round; /* larson: written between its two barriers */
static void (*pattern)(struct worker *);

static uint32_t random_number(struct worker *worker) {
    worker->random = worker->random * 1664525u + 1013904223u;
    return worker->random >> 8;
}

static struct block allocate(struct worker *worker, uint32_t number) {
    unsigned kind = number % OWN_SITES;
    size_t bytes = (size_t)4096 << kind;
    return (struct block){site_malloc(worker->number * OWN_SITES + kind, bytes), bytes};
}

static void replace(struct worker *worker, struct block *block, uint32_t number) {
    if (block->pointer)
        site_free(block->pointer, block->bytes);
    *block = allocate(worker, number);
}

static void run_own(struct worker *worker) {
    enum { PAIRS = 64 };
    for (int i = 0; i < PAIRS; i++) {
        uint32_t number = random_number(worker) % OWN_BLOCKS;
        replace(worker, &worker->blocks[number], number);
    }
    worker->pairs += PAIRS;
}

static void run_nothing(struct worker *worker) {
    enum { PAIRS = 65536 };
    for (size_t i = 0; i < PAIRS; i++) {
        struct block *block = &worker->blocks[random_number(worker) % OWN_BLOCKS];
        block->bytes = block->pointer++;
    }
    worker->pairs += PAIRS;
}

/* All threads meet after each round: none may use blocks that another one still has, and all stop
 * after the same one. */
static void run_larson(struct worker *worker) {
    struct worker *owner = &workers[(worker->number + worker->rounds++) % count];
    struct block *table = owner->blocks;
    for (int i = 0; i < LARSON_BLOCKS; i++) {
        uint32_t number = random_number(worker) % LARSON_BLOCKS;
        struct block *entry = &table[number];
        /* The shift makes nothing of any address or count; with it `same` waits for the entry too.
         */
        struct block *kept = &worker->kept[number + (uint32_t)(entry->pointer >> 63)];
        (same ? entry : kept)->pointer++;
        replace(worker, same ? kept : entry, number);
    }
    worker->pairs += LARSON_BLOCKS;
    // NOLINTNEXTLINE(bugprone-posix-return): it returns that
    if (pthread_barrier_wait(&round_over) == PTHREAD_BARRIER_SERIAL_THREAD)
        last_round = atomic_load(&stop);
    pthread_barrier_wait(&round_over);
}

static bool put(struct queue *queue, struct batch *batch) {
    size_t number = atomic_load_explicit(&queue->put, memory_order_relaxed);
    while (atomic_load_explicit(&queue->taken, memory_order_acquire) + QUEUE == number) {
        if (atomic_load_explicit(&stop, memory_order_relaxed))
            return false;
        sched_yield();
    }
    queue->batches[number % QUEUE] = batch;
    atomic_store_explicit(&queue->put, number + 1, memory_order_release);
    return true;
}

static struct batch *take(struct queue *queue) {
    size_t number = atomic_load_explicit(&queue->taken, memory_order_relaxed);
    while (atomic_load_explicit(&queue->put, memory_order_acquire) == number) {
        if (atomic_load_explicit(&stop, memory_order_relaxed))
            return NULL;
        sched_yield();
    }
    return queue->batches[number % QUEUE];
}

static void taken(struct queue *queue) {
    atomic_fetch_add_explicit(&queue->taken, 1, memory_order_release);
}

static void run_xmalloc(struct worker *worker) {
    struct queue *from = &workers[(worker->number + count - 1) % count].queue;
    struct batch *own = &worker->batches[worker->made++ % (2 * QUEUE)], *theirs;
    for (uint32_t i = 0; i < BATCH; i++)
        own->blocks[i] = allocate(worker, i);
    if (!put(&worker->queue, own) || !(theirs = take(from)))
        return;
    for (size_t i = 0; i < BATCH; i++) {
        struct block block = theirs->blocks[i];
        worker->handed_over ^= block.pointer; /* so that it is read, whichever is freed */
        if (same)
            block = own->blocks[i];
        site_free(block.pointer, block.bytes);
    }
    taken(from);
    worker->pairs += BATCH;
}

static void *work(void *data) {
    struct worker *worker = data;
    while (worker->pairs < WARM_UP)
        pattern(worker);
    worker->pairs = 0;
    pthread_barrier_wait(&started);
    const bool *over = pattern == run_larson ? &last_round : NULL;
    while (over ? !*over : !atomic_load_explicit(&stop, memory_order_relaxed))
        pattern(worker);
    return NULL;
}

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(struct worker *);
    } patterns[] = {{"own", run_own},
                    {"larson", run_larson},
                    {"xmalloc", run_xmalloc},
                    {"nothing", run_nothing}};
    double duration = argc > 3 ? atof(argv[3]) : 0;
    size_t pairs = 0;
    count = argc > 3 ? (unsigned)atoi(argv[2]) : 0;
    same = argc > 4 && strcmp(argv[4], "same") == 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns && argc > 1; i++)
        if (strcmp(patterns[i].name, argv[1]) == 0)
            pattern = patterns[i].run;
    if (!pattern || !count || count > MOST_THREADS || duration <= 0 || argc > 5 ||
        (argc > 4 && !same)) {
        fprintf(stderr,
                "usage: %s own|larson|xmalloc|nothing THREADS SECONDS [same], at most %d threads\n",
                argv[0], MOST_THREADS);
        return 2;
    }
    site_malloc(SITES - 1, 1 << 20);
    pthread_barrier_init(&started, NULL, count + 1);
    pthread_barrier_init(&round_over, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        workers[i].number = i;
        workers[i].random = i + 1;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
            exit(1);
    }
    pthread_barrier_wait(&started);
    double start = seconds(CLOCK_MONOTONIC), cpu_start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    usleep((useconds_t)(duration * 1e6));
    atomic_store(&stop, true);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        pairs += workers[i].pairs;
    }
    printf("pairs %zu\nseconds %.9f\ncpu_seconds %.9f\n", pairs, seconds(CLOCK_MONOTONIC) - start,
           seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_start);
    return 0;
}
