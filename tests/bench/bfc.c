/* A best-fit allocator with coalescing in the manner of TensorFlow's (bfc_allocator.cc): requests
 * in units of 256 bytes; 21 bins of free chunks, 256 B << k, each in order of size, then address;
 * the first fit of the lowest bin that has one is split if it is twice too large or 128 MiB too
 * large; a free joins its neighbours; regions are asked from the driver, each twice the last. One
 * lock, and a hash from pointer to chunk. */
#include "allocator.h"
#include "driver/cuda_api.h"

#include <bsd/sys/tree.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <uthash.h>

enum { BINS = 21, UNIT = 256 };
static const size_t first_region = 1 << 20, most_waste = (size_t)128 << 20;

/* Invariant: previous and next lie directly beside it in the same region; two neighbours are never
 * both free; a free chunk is in the bin of its size. */
struct chunk {
    uintptr_t pointer;
    size_t size, requested; /* requested: 0 while it is free */
    struct chunk *previous, *next;
    RB_ENTRY(chunk) in_bin;
    UT_hash_handle by_pointer;
};

static int compare(const struct chunk *one, const struct chunk *other) {
    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    return (one->pointer > other->pointer) - (one->pointer < other->pointer);
}

RB_HEAD(bin, chunk);
#define UNUSED __attribute__((unused))
RB_GENERATE_INTERNAL(bin, chunk, in_bin, compare, static UNUSED)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bin bins[BINS];
static struct chunk *chunks, *spare; /* spare: linked by next */
static size_t next_region = first_region;

static int bin_of(size_t size) {
    int number = 63 - __builtin_clzl(size / UNIT);
    return number < BINS ? number : BINS - 1;
}

static void insert(struct chunk *chunk) {
    chunk->requested = 0;
    RB_INSERT(bin, &bins[bin_of(chunk->size)], chunk);
}

static void take_out(struct chunk *chunk) {
    RB_REMOVE(bin, &bins[bin_of(chunk->size)], chunk);
}

static struct chunk *new_chunk(uintptr_t pointer, size_t size) {
    struct chunk *chunk = spare;
    if (chunk)
        spare = chunk->next;
    else if (!(chunk = malloc(sizeof *chunk)))
        abort();
    chunk->pointer = pointer;
    chunk->size = size;
    chunk->previous = chunk->next = NULL;
    HASH_ADD(by_pointer, chunks, pointer, sizeof chunk->pointer, chunk);
    return chunk;
}

static bool extend(size_t size) {
    CUdeviceptr pointer;
    while (next_region < size)
        next_region *= 2;
    if (cuMemAlloc_v2(&pointer, next_region) != CUDA_SUCCESS)
        return false;
    insert(new_chunk(pointer, next_region));
    next_region *= 2;
    return true;
}

static struct chunk *find_free(size_t size) {
    for (int i = bin_of(size); i < BINS; i++) {
        struct chunk *chunk;
        RB_FOREACH (chunk, bin, &bins[i])
            if (chunk->size >= size)
                return chunk;
    }
    return NULL;
}

static void split(struct chunk *chunk, size_t size) {
    struct chunk *rest = new_chunk(chunk->pointer + size, chunk->size - size);
    chunk->size = size;
    rest->previous = chunk;
    rest->next = chunk->next;
    if (rest->next)
        rest->next->previous = rest;
    chunk->next = rest;
    insert(rest);
}

int reference_malloc(uintptr_t *pointer, size_t bytes) {
    size_t size = (bytes + UNIT - 1) & ~(size_t)(UNIT - 1);
    pthread_mutex_lock(&lock);
    struct chunk *chunk = find_free(size);
    if (!chunk && extend(size))
        chunk = find_free(size);
    if (chunk) {
        take_out(chunk);
        if (chunk->size >= 2 * size || chunk->size - size >= most_waste)
            split(chunk, size);
        chunk->requested = bytes;
        *pointer = chunk->pointer;
    }
    pthread_mutex_unlock(&lock);
    return chunk ? 0 : 2;
}

/* `chunk` takes in the free one behind it. */
static void merge_next(struct chunk *chunk) {
    struct chunk *gone = chunk->next;
    chunk->size += gone->size;
    chunk->next = gone->next;
    if (chunk->next)
        chunk->next->previous = chunk;
    HASH_DELETE(by_pointer, chunks, gone);
    gone->next = spare;
    spare = gone;
}

int reference_free(uintptr_t pointer, size_t bytes) {
    struct chunk *chunk;
    (void)bytes;
    pthread_mutex_lock(&lock);
    HASH_FIND(by_pointer, chunks, &pointer, sizeof pointer, chunk);
    bool found = chunk && chunk->requested;
    if (found) {
        chunk->requested = 0;
        if (chunk->next && !chunk->next->requested) {
            take_out(chunk->next);
            merge_next(chunk);
        }
        if (chunk->previous && !chunk->previous->requested) {
            chunk = chunk->previous;
            take_out(chunk);
            merge_next(chunk);
        }
        insert(chunk);
    }
    pthread_mutex_unlock(&lock);
    return found ? 0 : 1;
}
