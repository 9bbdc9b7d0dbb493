/* Many threads on several devices allocate and free blocks of mixed sizes and lifetimes, for as
 * long as one asks: soak OPERATIONS THREADS DEVICES POINTS STRETCH.
 *
 * An operation is a malloc or a free. Each thread has a device and a table of blocks; it takes a
 * slot at random, the first few far more often than the others, frees what is in it and fills it
 * again the next time. After each of POINTS equal parts all threads meet, and a line says what that
 * part took and what the process holds by then:
 *
 *   point NUMBER operations OPERATIONS cpu_ns CPU wall_ns WALL heap HEAP resident RESIDENT live
 * BLOCKS
 *
 * all of them whole numbers: how many operations this part had and what they took in CPU time and
 * wall clock; at its end, the bytes of the host's heap in use (mmapped chunks too) and of resident
 * memory, and, as the pool counts them (0 without it), the blocks live and idle, and all
 * allocations and hits so far. Without the pool nothing takes host memory after the start:
 * flat_driver.c takes none.
 *
 * If STRETCH is not 0 and the program runs under callgrind with --instr-atstart=no, that many
 * operations of each thread are counted at the end of each part, and dumped. */
#include "driver/cuda_api.h"
#include "poolcuda.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
enum { CAN_COUNT = 1 };
#else
#define CALLGRIND_START_INSTRUMENTATION (void)0
#define CALLGRIND_STOP_INSTRUMENTATION  (void)0
#define CALLGRIND_DUMP_STATS            (void)0
enum { CAN_COUNT = 0 };
#endif

enum { SLOTS = 64, SHORT_LIVED = 8, MAX_THREADS = 256, MAX_DEVICES = 8, SITES = 16 };

struct worker {
    uint64_t random;
    int device;
    CUdeviceptr blocks[SLOTS];
    char apart[64]; /* no two threads' words share a cache line */
};

static struct worker workers[MAX_THREADS];
static CUcontext contexts[MAX_DEVICES];
static pthread_barrier_t meeting;
static long long part, stretch; /* operations of each thread */
static int points, thread_count;

static uint32_t next_random(struct worker *worker) {
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (uint32_t)(worker->random >> 16);
}

static void require(CUresult result, const char *call) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "soak: %s: error %d\n", call, (int)result);
    exit(1);
}

/* A call site for each number. */
typedef CUresult allocate_function(CUdeviceptr *pointer, size_t bytes);
#define SITE(n)                                                                                    \
    __attribute__((noinline)) static CUresult allocate_##n(CUdeviceptr *pointer, size_t bytes) {   \
        CUresult result = cuMemAlloc_v2(pointer, bytes);                                           \
        __asm__ volatile("" : : "r"(n) : "memory"); /* distinct code, and not a tail call */       \
        return result;                                                                             \
    }
/* Lists, which clang-format takes for statements. */
// clang-format off
#define SITES_4(x) SITE(x##0) SITE(x##1) SITE(x##2) SITE(x##3)
SITES_4(1) SITES_4(2) SITES_4(3) SITES_4(4)
#define NAME_4(x) allocate_##x##0, allocate_##x##1, allocate_##x##2, allocate_##x##3
static allocate_function *const allocate_at[SITES] = {NAME_4(1), NAME_4(2), NAME_4(3), NAME_4(4)};
// clang-format on

/* From 16 bytes to 8 MiB, every octave as likely as the next; one in 64 up to 64 MiB. */
static size_t some_size(struct worker *worker) {
    uint32_t octave = next_random(worker) % 64 ? 4 + next_random(worker) % 19 : 25;
    return ((size_t)1 << octave) + next_random(worker) % ((size_t)1 << octave);
}

static void operate(struct worker *worker) {
    uint32_t slots = next_random(worker) % 8 ? SHORT_LIVED : SLOTS;
    CUdeviceptr *block = &worker->blocks[next_random(worker) % slots];
    if (*block) {
        require(cuMemFree_v2(*block), "cuMemFree");
        *block = 0;
    } else {
        size_t bytes = some_size(worker);
        require(allocate_at[next_random(worker) % SITES](block, bytes), "cuMemAlloc");
    }
}

static void meet(void) {
    pthread_barrier_wait(&meeting);
}

static void *work(void *data) {
    struct worker *worker = data;
    require(cuCtxSetCurrent(contexts[worker->device]), "cuCtxSetCurrent");
    for (int point = 0; point < points; point++) {
        meet();
        for (long long i = 0; i < part - stretch; i++)
            operate(worker);
        meet(); /* counting begins in between */
        meet();
        for (long long i = 0; i < stretch; i++)
            operate(worker);
        meet();
        meet(); /* until the figures are taken */
    }
    return NULL;
}

static long long nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* In bytes. */
static long long resident(void) {
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*s %lld", &pages) != 1)
        pages = -1;
    if (file)
        fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* As the pool has them; zeros without it. */
static struct poolcuda_stats pool_usage(void) {
    struct poolcuda_stats stats = {.size = sizeof stats};
    int (*ask)(int device, struct poolcuda_stats *stats);
    *(void **)&ask = dlsym(RTLD_DEFAULT, "poolcuda_stats");
    if (ask)
        ask(POOLCUDA_ALL_DEVICES, &stats);
    return stats;
}

/* What happens between the meetings of one part. */
static void watch(int point) {
    meet();
    long long cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID), wall = nanoseconds(CLOCK_MONOTONIC);
    meet();
    if (stretch)
        CALLGRIND_START_INSTRUMENTATION;
    meet();
    meet();
    if (stretch) {
        CALLGRIND_STOP_INSTRUMENTATION;
        CALLGRIND_DUMP_STATS;
    }
    cpu = nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    wall = nanoseconds(CLOCK_MONOTONIC) - wall;
    struct mallinfo2 heap = mallinfo2();
    struct poolcuda_stats pool = pool_usage();
    printf("point %d operations %lld cpu_ns %lld wall_ns %lld heap %zu resident %lld live %llu "
           "idle %llu allocations %llu hits %llu\n",
           point, part * thread_count, cpu, wall, heap.uordblks + heap.hblkhd, resident(),
           (unsigned long long)pool.live_blocks, (unsigned long long)pool.idle_blocks,
           (unsigned long long)pool.allocations, (unsigned long long)pool.hits);
    fflush(stdout);
    meet();
}

/* A whole number from 1 to `most` as argument `index`, or from `least`. */
static long long argument(char **values, int index, long long least, long long most) {
    char *end;
    long long value = strtoll(values[index], &end, 10);
    if (*end || value < least || value > most) {
        fprintf(stderr, "soak: %s: expected a whole number from %lld to %lld\n", values[index],
                least, most);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv) {
    static pthread_t threads[MAX_THREADS];
    static char output[1 << 16];
    if (argc != 6) {
        fprintf(stderr, "usage: soak OPERATIONS THREADS DEVICES POINTS STRETCH\n");
        return 2;
    }
    setvbuf(stdout, output, _IOFBF, sizeof output); /* so that printing takes no memory later */
    thread_count = (int)argument(argv, 2, 1, MAX_THREADS);
    int devices = (int)argument(argv, 3, 1, MAX_DEVICES);
    points = (int)argument(argv, 4, 1, 1000);
    part = argument(argv, 1, 1, 1LL << 50) / thread_count / points;
    stretch = argument(argv, 5, 0, part);
    if (stretch && !CAN_COUNT) {
        fprintf(
            stderr,
            "soak: built without valgrind's headers, so it cannot count; expected 0 as STRETCH\n");
        return 2;
    }
    require(cuInit(0), "cuInit");
    for (int d = 0; d < devices; d++)
        require(cuDevicePrimaryCtxRetain(&contexts[d], d), "cuDevicePrimaryCtxRetain");
    pthread_barrier_init(&meeting, NULL, (unsigned)thread_count + 1);
    for (int t = 0; t < thread_count; t++) {
        workers[t] =
            (struct worker){.random = 88172645463325252u + (uint64_t)t * 0x9e3779b97f4a7c15u,
                            .device = t % devices};
        if (pthread_create(&threads[t], NULL, work, &workers[t])) {
            fprintf(stderr, "soak: no thread %d\n", t);
            return 1;
        }
    }
    for (int point = 0; point < points; point++)
        watch(point);
    for (int t = 0; t < thread_count; t++)
        pthread_join(threads[t], NULL);
    return 0;
}
