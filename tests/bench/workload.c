/* workload KIND OPERATIONS [BLOCKS | FILE]: allocates and frees in one thread.
 *
 * What is measured is a loop of about that many operations (mallocs and frees) after a warm-up of
 * the same kind; under callgrind that alone is collected. Prints lines "word number":
 *
 * operations, mallocs    of the loop
 * misses, waits          of the loop: the driver's allocations and waits for the device
 * cpu_seconds            of this process in each fifth of the loop: five numbers
 * start, start_reserved  bytes of this process (process_memory.h) after the first allocation
 * filled                 after the blocks that are live all the while have been allocated
 * device                 bytes asked from the driver, in pages, all in all
 *
 * KIND:
 * pair       malloc and free of one size at one site, in turns
 * set        BLOCKS live blocks of sixteen sizes, each size with a site of its own: a random block
 *            is replaced by one of a random size
 * live       BLOCKS live blocks of a hundred sizes at 64 sites: a random one is replaced
 * never      mallocs without a free
 * never_idle the same while a larger block is idle
 * new_sizes  each malloc is 2 MiB larger than the one before, which is then freed
 * trace      the operations in FILE, in rounds: lines "m SLOT SITE BYTES" and "f SLOT"
 *
 * In all of them one block stays live: a free that leaves the context without any has to wait. With
 * WORKLOAD_TAG in the environment all is allocated under that tag (poolcuda_site_push): the pool
 * then need not look for the call's site. */
#include "null_driver.h"
#include "process_memory.h"
#include "sites.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef HAVE_CALLGRIND
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

enum { WARM_UP = 8192, SEED = 1, PARTS = 5 };

struct slot {
    uintptr_t pointer;
    size_t bytes;
};

struct operation {
    unsigned slot, site;
    size_t bytes; /* 0: a free */
};

struct workload {
    const char *kind;
    size_t operations, blocks;
    size_t mallocs; /* so far */
    struct slot *slots;
    uint32_t random;
    size_t sizes_seen;       /* new_sizes */
    struct operation *trace; /* of `trace_count`, which leave no block live */
    size_t trace_count, trace_at;
};

static uint32_t random_number(struct workload *work) {
    work->random = work->random * 1664525u + 1013904223u;
    return work->random >> 8;
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        exit(1);
    memset(memory, 0, count * size); /* present from now on */
    return memory;
}

static void slot_malloc(struct workload *work, struct slot *slot, unsigned site, size_t bytes) {
    work->mallocs++;
    slot->pointer = site_malloc(site, bytes);
    slot->bytes = bytes;
}

/* What is asked for at a site of `set`, and by a slot of `live`. */
static size_t set_bytes(unsigned site) {
    return (size_t)(site % 2 ? 1536 : 1024) << site / 2;
}

static size_t live_bytes(size_t slot) {
    return 512 + slot % 100 * 512;
}

static void run_pair(struct workload *work, size_t operations) {
    struct slot *slot = work->slots;
    for (size_t i = 0; i < operations; i += 2) {
        slot_malloc(work, slot, 0, 1 << 16);
        site_free(slot->pointer, slot->bytes);
    }
}

static void run_set(struct workload *work, size_t operations) {
    for (size_t i = 0; i < operations; i += 2) {
        struct slot *slot = &work->slots[random_number(work) % work->blocks];
        unsigned site = random_number(work) % 16;
        site_free(slot->pointer, slot->bytes);
        slot_malloc(work, slot, site, set_bytes(site));
    }
}

static void run_live(struct workload *work, size_t operations) {
    for (size_t i = 0; i < operations; i += 2) {
        size_t number = random_number(work) % work->blocks;
        struct slot *slot = &work->slots[number];
        site_free(slot->pointer, slot->bytes);
        slot_malloc(work, slot, (unsigned)number, live_bytes(number));
    }
}

static void run_never(struct workload *work, size_t operations) {
    work->mallocs += operations;
    for (size_t i = 0; i < operations; i++)
        site_malloc(0, 4096);
}

static void run_new_sizes(struct workload *work, size_t operations) {
    for (size_t i = 0; i < operations; i += 2) {
        struct slot before = *work->slots;
        slot_malloc(work, work->slots, 0, ((size_t)2 << 20) * ++work->sizes_seen);
        site_free(before.pointer, before.bytes);
    }
}

static void run_trace(struct workload *work, size_t operations) {
    for (size_t i = 0; i < operations; i++) {
        const struct operation *operation = &work->trace[work->trace_at];
        struct slot *slot = &work->slots[operation->slot];
        if (operation->bytes)
            slot_malloc(work, slot, operation->site, operation->bytes);
        else
            site_free(slot->pointer, slot->bytes);
        if (++work->trace_at == work->trace_count)
            work->trace_at = 0;
    }
}

static void read_trace(struct workload *work, const char *path) {
    FILE *file = fopen(path, "r");
    char what;
    struct operation operation;
    size_t room = 0;
    if (!file) {
        perror(path);
        exit(1);
    }
    while (fscanf(file, " %c %u", &what, &operation.slot) == 2) {
        operation.site = 0;
        operation.bytes = 0;
        if (what == 'm' && fscanf(file, "%u %zu", &operation.site, &operation.bytes) != 2)
            break;
        if (work->trace_count == room) {
            room = room ? 2 * room : 1024;
            work->trace = realloc(work->trace, room * sizeof *work->trace);
            if (!work->trace)
                exit(1);
        }
        work->trace[work->trace_count++] = operation;
        if (operation.slot >= work->blocks)
            work->blocks = operation.slot + 1;
    }
    if (!work->trace_count || !feof(file)) {
        fprintf(stderr, "%s: expected lines \"m SLOT SITE BYTES\" and \"f SLOT\"\n", path);
        exit(1);
    }
    fclose(file);
}

static void prepare(struct workload *work, const char *argument) {
    if (strcmp(work->kind, "trace") == 0)
        read_trace(work, argument);
    else
        work->blocks = argument ? strtoul(argument, NULL, 10) : 64;
    if (!work->blocks)
        exit(2);
    work->slots = allocate(work->blocks, sizeof *work->slots);
}

static void fill(struct workload *work) {
    bool set = strcmp(work->kind, "set") == 0;
    if (set || strcmp(work->kind, "live") == 0)
        for (size_t i = 0; i < work->blocks; i++)
            slot_malloc(work, &work->slots[i], (unsigned)(set ? i % 16 : i),
                        set ? set_bytes((unsigned)i % 16) : live_bytes(i));
    else if (strcmp(work->kind, "new_sizes") == 0)
        slot_malloc(work, work->slots, 0, 4096);
    else if (strcmp(work->kind, "never_idle") == 0) {
        slot_malloc(work, work->slots, 1, 1 << 20);
        site_free(work->slots->pointer, work->slots->bytes);
    }
}

/* The pool is preloaded, or not there. */
static void push_tag(const char *tag) {
    void (*push)(const char *) = NULL;
    *(void **)&push = dlsym(RTLD_DEFAULT, "poolcuda_site_push");
    if (!push) {
        fputs("WORKLOAD_TAG: expected the pool to be preloaded\n", stderr);
        exit(1);
    }
    push(tag);
}

static double processor_time(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    static const struct {
        const char *kind;
        void (*run)(struct workload *, size_t);
    } kinds[] = {{"pair", run_pair},   {"set", run_set},          {"live", run_live},
                 {"never", run_never}, {"never_idle", run_never}, {"new_sizes", run_new_sizes},
                 {"trace", run_trace}};
    void (*run)(struct workload *, size_t) = NULL;
    struct workload work = {.random = SEED};
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: %s KIND OPERATIONS [BLOCKS | FILE]\n", argv[0]);
        return 2;
    }
    work.kind = argv[1];
    work.operations = strtoul(argv[2], NULL, 10) & ~(size_t)1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].kind, work.kind) == 0)
            run = kinds[i].run;
    if (!run || !work.operations || (argc < 4 && run == run_trace)) {
        fprintf(stderr, "%s: no such kind, no operations, or no file\n", work.kind);
        return 2;
    }
    if (getenv("WORKLOAD_TAG"))
        push_tag(getenv("WORKLOAD_TAG"));
    prepare(&work, argc > 3 ? argv[3] : NULL);
    site_malloc(63, 1 << 20); /* the one that stays */
    struct process_memory start = process_memory();
    fill(&work);
    struct process_memory filled = process_memory();
    run(&work, run == run_trace ? (WARM_UP / work.trace_count + 1) * work.trace_count : WARM_UP);
    if (run == run_trace) /* whole rounds */
        work.operations =
            (work.operations + work.trace_count - 1) / work.trace_count * work.trace_count;
    work.mallocs = 0;
    const struct null_driver_counts *driver = null_driver_counted();
    uint64_t misses = driver->allocations, waits = driver->waits;
    double cpu_seconds[PARTS];
    CALLGRIND_START_INSTRUMENTATION;
    for (size_t i = 0, done = 0; i < PARTS; i++) {
        size_t until = work.operations * (i + 1) / PARTS & ~(size_t)1;
        double before = processor_time();
        run(&work, until - done);
        cpu_seconds[i] = processor_time() - before;
        done = until;
    }
    CALLGRIND_STOP_INSTRUMENTATION;
    misses = driver->allocations - misses;
    waits = driver->waits - waits;
    printf("operations %zu\nmallocs %zu\nmisses %" PRIu64 "\nwaits %" PRIu64 "\ncpu_seconds",
           work.operations, work.mallocs, misses, waits);
    for (int i = 0; i < PARTS; i++)
        printf(" %.9f", cpu_seconds[i]);
    putchar('\n');
    printf("start %zu\nstart_reserved %zu\nfilled %zu\ndevice %" PRIu64 "\n", start.present,
           start.reserved, filled.present, driver->bytes);
    return 0;
}
