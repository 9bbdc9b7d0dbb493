/* One of the ranks of a job on one GPU: RANK RANKS FILE TRIES.
 *
 * Each has a block of its own that is live throughout, and a working set that it has only while it
 * is its turn, of other sizes in each round: so idle memory is left between turns. Until its turn
 * comes, and until all have had theirs, it goes on with small blocks. FILE, empty at first, is what
 * the ranks of one job share. An allocation that finds no memory is tried TRIES times; then the
 * rank ends with 1, and the others go on without it.
 *
 * Prints a checksum of what its memory held. */
#include "driver/cuda_api.h"
#include "program.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define CHECK(call) REQUIRE((call) == CUDA_SUCCESS)

enum { MIB = 1 << 20, SMALL = 4096, TABLE = 16384, BLOCKS = 4, TURNS = 3 };

static const size_t base_size = 4 * MIB;
/* Each round has 40 MiB. */
static const size_t sizes[TURNS][BLOCKS] = {{10 * MIB, 10 * MIB, 10 * MIB, 10 * MIB},
                                            {6 * MIB, 14 * MIB, 12 * MIB, 8 * MIB},
                                            {18 * MIB, 8 * MIB, 4 * MIB, 10 * MIB}};

static struct job { _Atomic unsigned arrived, turn, gone; /* gone: a bit for each rank */ } * job;
static unsigned rank, ranks, tries;
static CUdeviceptr base;
static uint64_t checksum;
static uint32_t table[TABLE];

static void share(const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    REQUIRE(file >= 0 && ftruncate(file, sizeof *job) == 0);
    job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(job != MAP_FAILED);
    close(file);
}

/* The next turn, of a rank that is still there. */
static void pass(void) {
    unsigned next = job->turn + 1, gone = job->gone;
    while (next < ranks * TURNS && gone >> next % ranks & 1)
        next++;
    job->turn = next;
}

/* In its turn. */
static CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr block;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    for (unsigned i = 0; i < tries && result == CUDA_ERROR_OUT_OF_MEMORY; i++)
        result = cuMemAlloc_v2(&block, bytes);
    if (result == CUDA_SUCCESS)
        return block;
    REQUIRE(result == CUDA_ERROR_OUT_OF_MEMORY);
    printf("out of memory\n");
    job->gone |= 1u << rank % ranks;
    pass();
    exit(1);
}

static void work_a_little(void) {
    CUdeviceptr block;
    CHECK(cuMemAlloc_v2(&block, SMALL));
    CHECK(cuMemFree_v2(block));
    nanosleep(&(struct timespec){.tv_nsec = 100 * 1000}, NULL);
}

static void add(CUdeviceptr from) {
    CHECK(cuMemcpyDtoH_v2(table, from, sizeof table));
    for (int i = 0; i < TABLE; i++)
        checksum = (checksum ^ table[i]) * 1099511628211u;
}

/* What is at both ends of each block of the working set comes from the rank's own block, and goes
 * back there changed. */
static void take_turn(unsigned round) {
    CUdeviceptr blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = allocate(sizes[round][i]);
    for (int i = 0; i < BLOCKS; i++) {
        CUdeviceptr end = blocks[i] + sizes[round][i] - sizeof table;
        CHECK(cuMemsetD32_v2(blocks[i], rank * 2654435761u + round * 40503u + (unsigned)i, TABLE));
        CHECK(cuMemcpyDtoD_v2(end, base + (size_t)i * MIB, sizeof table));
    }
    for (int i = 0; i < BLOCKS; i++) {
        add(blocks[i] + sizes[round][i] - sizeof table);
        add(blocks[i]);
        CHECK(cuMemcpyHtoD_v2(base + (size_t)i * MIB, table, sizeof table));
    }
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemFree_v2(blocks[i]));
}

int main(int argc, char **argv) {
    CUcontext context;
    REQUIRE(argc == 5);
    rank = (unsigned)atoi(argv[1]);
    ranks = (unsigned)atoi(argv[2]);
    tries = (unsigned)strtoul(argv[4], NULL, 10);
    share(argv[3]);
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc_v2(&base, base_size));
    CHECK(cuMemsetD32_v2(base, rank, base_size / 4));
    for (job->arrived++; job->arrived < ranks;)
        work_a_little();
    for (unsigned round = 0; round < TURNS; round++) {
        while (job->turn != round * ranks + rank % ranks)
            work_a_little();
        take_turn(round);
        pass();
    }
    while (job->turn < ranks * TURNS)
        work_a_little();
    for (size_t at = 0; at < base_size; at += sizeof table)
        add(base + at);
    printf("%016" PRIx64 "\n", checksum);
    return 0;
}
