/* Blocks, and the threads of the host that run them. A thread begins a further block only when
 * those that it has do not end soon: they may wait for one that has not begun. All blocks of a
 * cooperative launch begin at once. */
#include "allocate.h"
#include "machine.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 16 };        /* of a block's warps before other blocks are run */
enum { MOST_BEGUN = 4096 }; /* blocks of one thread */
enum { FEW_IDLE = 8 };      /* rounds in which no block ends */
enum { MOST_BYTES = 1 << 26 };
enum { MOST_WORKERS = 16 };

struct block *block_begin(struct launch *launch, struct worker *worker, uint64_t number) {
    const unsigned int *grid = launch->asked->grid;
    struct block *block = allocate_zeroed(sizeof *block);
    bool fits = true;

    block->launch = launch;
    block->number = number;
    block->index[0] = (unsigned int)(number % grid[0]);
    block->index[1] = (unsigned int)(number / grid[0] % grid[1]);
    block->index[2] = (unsigned int)(number / grid[0] / grid[1]);
    block->warp_count = (launch->threads + LANES - 1) / LANES;
    block->live_warps = block->warp_count;
    block->shared_size = launch->shared_size;
    block->shared = allocate_zeroed(launch->shared_size + 16);
    block->warps = allocate_zeroed(block->warp_count * sizeof *block->warps);
    for (unsigned int i = 0; i < block->warp_count; i++)
        fits = warp_begin(&block->warps[i], block, worker, i) && fits;
    if (!fits)
        atomic_store(&launch->result, SIMT_STACK_OVERFLOW);
    return block;
}

void block_end(struct block *block) {
    for (unsigned int i = 0; i < block->warp_count; i++)
        warp_end(&block->warps[i]);
    free(block->warps);
    free(block->shared);
    free(block);
}

unsigned int block_thread(const struct warp *warp, unsigned int lane) {
    return warp->number * LANES + lane;
}

static bool has_failed(const struct launch *launch) {
    return atomic_load_explicit(&launch->result, memory_order_relaxed) != SIMT_DONE;
}

bool block_run(struct block *block, bool *moved) {
    for (unsigned int turn = 0; turn < TURNS; turn++) {
        bool runs = false;

        for (unsigned int i = 0; i < block->warp_count; i++) {
            if (block->warps[i].live == 0)
                continue;
            runs = warp_run(&block->warps[i]) || runs;
            if (block->live_warps == 0 || has_failed(block->launch))
                return true;
        }
        *moved = *moved || runs;
        if (!runs)
            return false;
    }
    return false;
}

/* --- workers --- */

/* False: all have begun. */
static bool begin_one(struct worker *worker) {
    struct launch *launch = worker->launch;
    uint64_t number = atomic_fetch_add(&launch->next_block, 1);
    struct block *block;

    if (number >= launch->blocks)
        return false;
    block = block_begin(launch, worker, number);
    block->next = worker->blocks;
    worker->blocks = block;
    worker->block_count++;
    return true;
}

static void end_all(struct worker *worker) {
    while (worker->blocks != NULL) {
        struct block *next = worker->blocks->next;

        block_end(worker->blocks);
        worker->blocks = next;
    }
    worker->block_count = 0;
}

/* Where no block has ended for a while, all may wait for those that have not begun: then many begin
 * at once, as far as they take little of the host's memory. False: all have begun. */
static bool begin_more(struct worker *worker, unsigned int idle) {
    const struct launch *launch = worker->launch;
    size_t bytes = (size_t)launch->threads * launch->kernel->function->rows * sizeof(uint64_t) +
                   launch->shared_size;
    unsigned int count =
        idle < FEW_IDLE || bytes * worker->block_count > MOST_BYTES ? 1 : worker->block_count + 1;
    bool more = true;

    for (unsigned int i = 0; more && i < count && worker->block_count < MOST_BEGUN; i++)
        more = begin_one(worker);
    return more;
}

/* Gives each block its turn. True: one has ended. */
static bool run_round(struct worker *worker, bool *moved) {
    bool ended = false;

    for (struct block **at = &worker->blocks; *at != NULL;) {
        struct block *block = *at;

        if (!block_run(block, moved)) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        block_end(block);
        worker->block_count--;
        ended = true;
        if (has_failed(worker->launch))
            break;
    }
    return ended;
}

static void drop_spare(struct worker *worker) {
    for (size_t i = 0; i < SPARES; i++) {
        while (worker->spare[i] != NULL) {
            struct frame *next = worker->spare[i]->next_spare;

            free(worker->spare[i]);
            worker->spare[i] = next;
        }
    }
}

/* A launch that is to end has had all of its turns. */
static void trap(struct launch *launch) {
    int none = SIMT_DONE;

    atomic_compare_exchange_strong(&launch->result, &none, SIMT_TRAPPED);
}

/* Rounds in which no block has ended: after so many who has written nothing meanwhile is said to
 * wait, after more anybody. */
enum { LONG_IDLE = 64, VERY_LONG_IDLE = 4096 };

static void tell_waits(const struct worker *worker, bool waits) {
    const struct simt_launch *asked = worker->launch->asked;

    if (worker == worker->launch->workers && asked->waits != NULL)
        asked->waits(asked->memory->owner, waits);
}

/* *writes: how many there were when a block ended or something was written last. */
static bool is_waiting(const struct worker *worker, unsigned int idle, uint64_t *writes) {
    if (idle == 0 || (idle < VERY_LONG_IDLE && worker->writes != *writes)) {
        if (idle % LONG_IDLE == 0)
            *writes = worker->writes;
        return false;
    }
    return idle >= LONG_IDLE;
}

static void run_worker(struct worker *worker) {
    struct launch *launch = worker->launch;
    uint64_t share = launch->blocks / launch->worker_count + 1;
    bool more = true, waits = false;
    unsigned int idle = 0, rounds = 0;
    uint64_t writes = 0;

    while (more && launch->asked->cooperative && worker->block_count < share)
        more = begin_one(worker);
    while (!has_failed(worker->launch)) {
        bool moved = false, ended;

        if (more)
            more = begin_more(worker, idle);
        if (worker->blocks == NULL)
            break;
        ended = run_round(worker, &moved);
        if (launch->asked->most_rounds != 0 && ++rounds == launch->asked->most_rounds)
            trap(launch);
        idle = ended ? 0 : idle + 1;
        if (waits != is_waiting(worker, idle, &writes))
            tell_waits(worker, waits = !waits);
        if (!moved || waits) { /* it may wait for the host, whose turn it is now */
            struct timespec pause = {.tv_nsec = 20000};

            if (waits)
                nanosleep(&pause, NULL);
            else
                sched_yield();
        }
    }
    end_all(worker);
    drop_spare(worker);
}

static void *worker_thread(void *argument) {
    run_worker(argument);
    return NULL;
}

/* How many threads of the host a launch is worth. */
static unsigned int count_workers(const struct launch *launch) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = launch->blocks * launch->threads;
    uint64_t count = processors > 1 ? (uint64_t)processors : 1;

    count = count < launch->blocks ? count : launch->blocks;
    count = count < 1 + threads / 2048 ? count : 1 + threads / 2048;
    return (unsigned int)(count < MOST_WORKERS ? count : MOST_WORKERS);
}

static void run_all(struct launch *launch) {
    pthread_t threads[MOST_WORKERS];
    bool started[MOST_WORKERS] = {false};

    for (unsigned int i = 1; i < launch->worker_count; i++)
        started[i] = pthread_create(&threads[i], NULL, worker_thread, &launch->workers[i]) == 0;
    run_worker(&launch->workers[0]);
    for (unsigned int i = 1; i < launch->worker_count; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}

static uint64_t now_ns(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

enum simt_result simt_run(struct simt_launch *asked) {
    const struct simt_kernel *kernel = asked->kernel;
    struct launch launch = {.asked = asked, .kernel = kernel, .begun_ns = now_ns()};
    enum simt_result result;

    launch.threads = asked->block[0] * asked->block[1] * asked->block[2];
    launch.blocks = (uint64_t)asked->grid[0] * asked->grid[1] * asked->grid[2];
    launch.shared_size = kernel->shared_bytes + asked->dynamic_shared;
    launch.worker_count = count_workers(&launch);
    launch.workers = allocate_zeroed(launch.worker_count * sizeof *launch.workers);
    for (unsigned int i = 0; i < launch.worker_count; i++)
        launch.workers[i].launch = &launch;
    run_all(&launch);
    for (unsigned int i = 0; i < launch.worker_count; i++)
        asked->instructions += launch.workers[i].instructions;
    record_finish(&launch);
    free(launch.workers);
    result = (enum simt_result)atomic_load(&launch.result);
    return result;
}

/* --- faults --- */

static const char *result_text(enum simt_result result) {
    switch (result) {
    case SIMT_ILLEGAL_ADDRESS:
        return "illegal address";
    case SIMT_MISALIGNED:
        return "misaligned address";
    case SIMT_STACK_OVERFLOW:
        return "stack overflow";
    default:
        return "failure";
    }
}

enum step fault(struct warp *warp, const struct instruction *instruction, unsigned int lane,
                enum simt_result result, const char *what, uint64_t address, unsigned int size) {
    struct launch *launch = warp->block->launch;
    const struct simt_launch *asked = launch->asked;
    const unsigned int *block = warp->block->index;
    unsigned int thread = block_thread(warp, lane);
    char near[256] = "";
    int none = SIMT_DONE;

    if (!atomic_compare_exchange_strong(&launch->result, &none, result) || !asked->memcheck)
        return STEP_AGAIN;
    if (result == SIMT_ILLEGAL_ADDRESS)
        asked->memory->describe(asked->memory->owner, address, near, sizeof near);
    fprintf(stderr,
            "simcuda: %s: %s %s 0x%llx (%u bytes) at line %u of its PTX, in %s, block (%u, %u, "
            "%u), thread (%u, %u, %u)%s%s\n",
            launch->kernel->function->name, result_text(result), what, (unsigned long long)address,
            size, instruction->line, warp->frame->function->name, block[0], block[1], block[2],
            thread % asked->block[0], thread / asked->block[0] % asked->block[1],
            thread / asked->block[0] / asked->block[1], near[0] != '\0' ? "; " : "", near);
    return STEP_AGAIN;
}
