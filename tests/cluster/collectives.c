/* MPI's collectives around device memory: each round allocates, computes, reduces over all ranks,
 * exchanges, reads what the next rank of the same host has shared, and frees. Buffers of the
 * collectives are pinned. Rank 0 prints a checksum that every rank has had a part in. */
#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct handle {
    char bytes[64];
};

/* As the CUDA runtime declares them. */
int cudaMalloc(void **pointer, size_t bytes);
int cudaFree(void *pointer);
int cudaMallocHost(void **pointer, size_t bytes);
int cudaFreeHost(void *pointer);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
int cudaIpcGetMemHandle(struct handle *handle, void *pointer);
int cudaIpcOpenMemHandle(void **pointer, struct handle handle, unsigned flags);
int cudaIpcCloseMemHandle(void *pointer);

enum { WORDS = 4096, TO_DEVICE = 1, TO_HOST = 2, LAZY_PEER = 1 };

static void require(int error, const char *what) {
    if (!error)
        return;
    fprintf(stderr, "%s: %d\n", what, error);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The ranks of this host, by its name: those alone can share memory. */
static MPI_Comm ranks_here(int rank, int ranks) {
    enum { LENGTH = MPI_MAX_PROCESSOR_NAME };
    char mine[LENGTH] = "", *names = calloc((size_t)ranks, LENGTH);
    int length, first = 0;
    MPI_Comm here;
    MPI_Get_processor_name(mine, &length);
    MPI_Allgather(mine, LENGTH, MPI_CHAR, names, LENGTH, MPI_CHAR, MPI_COMM_WORLD);
    while (strcmp(names + (size_t)first * LENGTH, mine) != 0)
        first++;
    free(names);
    MPI_Comm_split(MPI_COMM_WORLD, first, rank, &here);
    return here;
}

/* Writes what the next rank here has in its device memory to `words`. */
static void read_neighbour(MPI_Comm here, void *device, uint64_t *words) {
    int rank, ranks;
    void *theirs;
    struct handle mine, next;
    MPI_Comm_rank(here, &rank);
    MPI_Comm_size(here, &ranks);
    if (ranks > 1) {
        require(cudaIpcGetMemHandle(&mine, device), "cudaIpcGetMemHandle");
        MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, (rank + ranks - 1) % ranks, 0, &next,
                     sizeof next, MPI_BYTE, (rank + 1) % ranks, 0, here, MPI_STATUS_IGNORE);
        require(cudaIpcOpenMemHandle(&theirs, next, LAZY_PEER), "cudaIpcOpenMemHandle");
        require(cudaMemcpy(words, theirs, WORDS * sizeof *words, TO_HOST), "cudaMemcpy");
        require(cudaIpcCloseMemHandle(theirs), "cudaIpcCloseMemHandle");
    } else {
        require(cudaMemcpy(words, device, WORDS * sizeof *words, TO_HOST), "cudaMemcpy");
    }
    MPI_Barrier(here); /* its owner frees it only now */
}

int main(int argc, char **argv) {
    uint64_t checksum = 0, *parts, *mine, *sum;
    const size_t size = WORDS * sizeof *mine;
    const int rounds = argc > 1 ? atoi(argv[1]) : 1;
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    parts = calloc((size_t)ranks, 2 * sizeof *parts);
    MPI_Comm here = ranks_here(rank, ranks);
    for (int round = 0; round < rounds; round++) {
        void *device;
        require(cudaMallocHost((void **)&mine, size), "cudaMallocHost");
        require(cudaMallocHost((void **)&sum, size), "cudaMallocHost");
        for (int i = 0; i < WORDS; i++)
            mine[i] = (uint64_t)(rank + 1) * 2654435761u * (uint64_t)(i + round);
        require(cudaMalloc(&device, size), "cudaMalloc");
        require(cudaMemcpy(device, mine, size, TO_DEVICE), "cudaMemcpy");
        read_neighbour(here, device, mine);
        MPI_Allreduce(mine, sum, WORDS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        for (int other = 0; other < ranks; other++)
            parts[other] = sum[(other + rank + round) % WORDS] ^ (uint64_t)rank;
        MPI_Alltoall(parts, 1, MPI_UINT64_T, parts + ranks, 1, MPI_UINT64_T, MPI_COMM_WORLD);
        for (int other = 0; other < ranks; other++)
            checksum = checksum * 31 + parts[ranks + other];
        MPI_Bcast(&checksum, 1, MPI_UINT64_T, round % ranks, MPI_COMM_WORLD);
        require(cudaFree(device), "cudaFree");
        require(cudaFreeHost(sum), "cudaFreeHost");
        require(cudaFreeHost(mine), "cudaFreeHost");
    }
    if (rank == 0)
        printf("%d ranks, checksum %016" PRIx64 "\n", ranks, checksum);
    free(parts);
    MPI_Finalize();
    return 0;
}
