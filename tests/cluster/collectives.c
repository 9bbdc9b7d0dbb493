/* MPI's collectives around device memory: each round allocates, computes, reduces over all ranks,
 * exchanges, and frees. Rank 0 prints a checksum that every rank has had a part in. */
#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* As the CUDA runtime declares them. */
int cudaMalloc(void **pointer, size_t bytes);
int cudaFree(void *pointer);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);

enum { ROUNDS = 20, WORDS = 4096, TO_DEVICE = 1, TO_HOST = 2 };

static void require(int error, const char *what) {
    if (!error)
        return;
    fprintf(stderr, "%s: %d\n", what, error);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv) {
    static uint64_t mine[WORDS], sum[WORDS];
    uint64_t checksum = 0, *parts;
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    parts = calloc((size_t)ranks, 2 * sizeof *parts);
    for (int round = 0; round < ROUNDS; round++) {
        void *device;
        for (int i = 0; i < WORDS; i++)
            mine[i] = (uint64_t)(rank + 1) * 2654435761u * (uint64_t)(i + round);
        require(cudaMalloc(&device, sizeof mine), "cudaMalloc");
        require(cudaMemcpy(device, mine, sizeof mine, TO_DEVICE), "cudaMemcpy");
        require(cudaMemcpy(mine, device, sizeof mine, TO_HOST), "cudaMemcpy");
        MPI_Allreduce(mine, sum, WORDS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
        for (int other = 0; other < ranks; other++)
            parts[other] = sum[(other + rank + round) % WORDS] ^ (uint64_t)rank;
        MPI_Alltoall(parts, 1, MPI_UINT64_T, parts + ranks, 1, MPI_UINT64_T, MPI_COMM_WORLD);
        for (int other = 0; other < ranks; other++)
            checksum = checksum * 31 + parts[ranks + other];
        MPI_Bcast(&checksum, 1, MPI_UINT64_T, round % ranks, MPI_COMM_WORLD);
        require(cudaFree(device), "cudaFree");
    }
    if (rank == 0)
        printf("%d ranks, checksum %016" PRIx64 "\n", ranks, checksum);
    free(parts);
    MPI_Finalize();
    return 0;
}
