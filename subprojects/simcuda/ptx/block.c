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

/* False: the warp waits, for others, for memory to change or for time to pass. */
static bool run_turn(struct warp *warp) {
    bool moved = warp_run(warp);

    if (warp->live == 0)
        return true;
    return moved && !warp->spins &&
           (warp->block->launch->asked->clock != NULL || !spin_reads_clock(warp));
}

bool block_run(struct block *block, bool *moved) {
    for (unsigned int turn = 0; turn < TURNS; turn++) {
        bool runs = false;

        for (unsigned int i = 0; i < block->warp_count; i++) {
            if (block->warps[i].live == 0)
                continue;
            runs = run_turn(&block->warps[i]) || runs;
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
enum { LONG_STILL = 4 }; /* rounds in which no warp goes on, before its thread sleeps */
enum { MOST_WORDS = 64 };
enum { MOST_PAUSES = 16 }; /* between two reports that a launch still waits */

/* How long a worker has been without what it is there for. */
struct idleness {
    unsigned int idle;   /* rounds in which no block has ended */
    unsigned int still;  /* rounds in which no warp has gone on */
    uint64_t writes;     /* when a block ended or something was written last */
    bool told, certain;  /* that it waits; and for what */
    unsigned int pauses; /* since the last report */
};

/* A clock that is not the host's makes reading it work, too. */
static uint64_t progress(const struct worker *worker) {
    return worker->writes + (worker->launch->asked->clock != NULL ? worker->clock_reads : 0);
}

static bool seems_to_wait(const struct worker *worker, struct idleness *idleness) {
    if (idleness->idle == 0 ||
        (idleness->idle < VERY_LONG_IDLE && progress(worker) != idleness->writes)) {
        if (idleness->idle % LONG_IDLE == 0)
            idleness->writes = progress(worker);
        return false;
    }
    return idleness->idle >= LONG_IDLE;
}

static bool is_there(const struct simt_word *words, size_t count, const struct simt_word *word) {
    for (size_t i = 0; i < count; i++)
        if (words[i].address == word->address && words[i].size == word->size &&
            words[i].value == word->value)
            return true;
    return false;
}

/* What a warp looks at, which was at it in its last turn: many may look at one word, each at its
 * own value of it. False: there are too many. */
static bool add_words(const struct warp *warp, struct simt_word *words, size_t *count) {
    for (unsigned int i = 0; i < warp->spin->seen_count; i++) {
        const struct simt_word *word = &warp->spin->seen[i];

        if (is_there(words, *count, word))
            continue;
        if (*count == MOST_WORDS)
            return false;
        words[(*count)++] = *word;
    }
    return true;
}

/* What the warps of a worker wait for, none of which goes on. True: nothing else. */
static bool find_words(const struct worker *worker, struct simt_word *words, size_t *count) {
    bool any = false;

    *count = 0;
    for (const struct block *block = worker->blocks; block != NULL; block = block->next)
        for (unsigned int i = 0; i < block->warp_count; i++) {
            const struct warp *warp = &block->warps[i];

            if (warp->live == 0)
                continue;
            if (warp->reads_clock || (warp->spins && !add_words(warp, words, count)))
                return false;
            any = any || warp->spins;
        }
    return any;
}

/* Lets the driver know, if it wants to. False: the launch is to end. */
static bool tell_waits(const struct worker *worker, struct idleness *idleness, bool all_begun) {
    const struct simt_launch *asked = worker->launch->asked;
    struct simt_word words[MOST_WORDS];
    struct simt_wait wait = {.words = words};
    bool waits = seems_to_wait(worker, idleness);

    if (worker != worker->launch->workers || asked->waits == NULL)
        return true;
    if (idleness->still >= LONG_STILL && all_begun && worker->launch->worker_count == 1)
        wait.is_certain = find_words(worker, words, &wait.count);
    waits = waits || wait.is_certain;
    if (!waits && !idleness->told)
        return true;
    if (waits == idleness->told && wait.is_certain == idleness->certain &&
        ++idleness->pauses < MOST_PAUSES)
        return true;
    idleness->told = waits;
    idleness->certain = wait.is_certain;
    idleness->pauses = 0;
    return asked->waits(asked->memory->owner, waits ? &wait : NULL);
}

/* Others may have their turn now: other threads, other work, the host. */
static void pause_worker(const struct worker *worker, const struct idleness *idleness) {
    const struct timespec pause = {.tv_nsec = 50000};
    bool sleeps = idleness->told;

    if (idleness->still == 0 && !sleeps)
        return;
    for (const struct block *block = worker->blocks; block != NULL && !sleeps; block = block->next)
        for (unsigned int i = 0; i < block->warp_count; i++)
            sleeps = sleeps || (idleness->still >= LONG_STILL && block->warps[i].spins) ||
                     block->warps[i].reads_clock;
    if (sleeps)
        nanosleep(&pause, NULL);
    else
        sched_yield();
}

static void run_worker(struct worker *worker) {
    struct launch *launch = worker->launch;
    uint64_t share = launch->blocks / launch->worker_count + 1;
    struct idleness idleness = {0};
    unsigned int rounds = 0;
    bool more = true;

    while (more && launch->asked->cooperative && worker->block_count < share)
        more = begin_one(worker);
    while (!has_failed(worker->launch)) {
        bool moved = false, ended;

        if (more)
            more = begin_more(worker, idleness.idle);
        if (worker->blocks == NULL)
            break;
        ended = run_round(worker, &moved);
        if (launch->asked->most_rounds != 0 && ++rounds == launch->asked->most_rounds)
            trap(launch);
        idleness.idle = ended ? 0 : idleness.idle + 1;
        idleness.still = moved || ended ? 0 : idleness.still + 1;
        if (!tell_waits(worker, &idleness, !more || worker->block_count == MOST_BEGUN))
            trap(launch);
        pause_worker(worker, &idleness);
    }
    end_all(worker);
    drop_spare(worker);
}

static void *worker_thread(void *argument) {
    run_worker(argument);
    return NULL;
}

/* How many threads of the host a launch is worth. The system is asked only where it is more than
 * one: that takes longer than a small launch. */
static unsigned int count_workers(const struct launch *launch) {
    uint64_t count = 1 + launch->blocks * launch->threads / 2048;
    long processors;

    count = count < launch->blocks ? count : launch->blocks;
    if (count <= 1)
        return 1;
    processors = sysconf(_SC_NPROCESSORS_ONLN);
    count = processors < 1 ? 1 : count < (uint64_t)processors ? count : (uint64_t)processors;
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
    struct launch launch = {.asked = asked, .kernel = kernel};
    enum simt_result result;

    launch.begun_ns = asked->clock != NULL ? asked->clock(asked->memory->owner, 0) : now_ns();
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
