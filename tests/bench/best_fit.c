/* A pool with a best-fit free list in the manner of RMM's (pool_memory_resource with its
 * coalescing_free_list), for one stream: free blocks are a list in order of address; a request
 * looks at all of them and takes the smallest that is large enough, giving the rest back to the
 * list; a free looks for its place from the front and joins its neighbours, unless one begins an
 * allocation of the driver's. As there each entry of the list is an allocation of its own, the one
 * who frees says how large the block was, and a tree of the driver's allocations says which blocks
 * begin one. */
#include "allocator.h"
#include "driver/cuda_api.h"

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { UNIT = 256 };

/* A part of an allocation of the driver's; head: it begins one. */
struct block {
    uintptr_t pointer;
    size_t size;
    bool head;
};

struct entry {
    struct block block;
    TAILQ_ENTRY(entry) link;
};

struct upstream {
    uintptr_t pointer;
    RB_ENTRY(upstream) link;
};

static int compare(const struct upstream *one, const struct upstream *other) {
    return (one->pointer > other->pointer) - (one->pointer < other->pointer);
}

RB_HEAD(upstreams, upstream);
#define UNUSED __attribute__((unused))
RB_GENERATE_INTERNAL(upstreams, upstream, link, compare, static UNUSED)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(entry_list, entry) entries = TAILQ_HEAD_INITIALIZER(entries);
static struct upstreams upstreams = RB_INITIALIZER(&upstreams);
static size_t pool_size = (size_t)1 << 30; /* what it grows by: it doubles */

static bool is_before(const struct block *one, const struct block *other) {
    return one->pointer + one->size == other->pointer && !other->head;
}

static struct entry *new_entry(const struct block *block) {
    struct entry *entry = malloc(sizeof *entry);
    if (!entry)
        abort();
    entry->block = *block;
    return entry;
}

static void erase(struct entry *entry) {
    TAILQ_REMOVE(&entries, entry, link);
    free(entry);
}

static void insert(const struct block *block) {
    struct entry *next, *previous;
    TAILQ_FOREACH (next, &entries, link)
        if (block->pointer < next->block.pointer)
            break;
    previous = next ? TAILQ_PREV(next, entry_list, link) : TAILQ_LAST(&entries, entry_list);
    bool merge_previous = previous && is_before(&previous->block, block);
    bool merge_next = next && is_before(block, &next->block);
    if (merge_previous) {
        previous->block.size += block->size + (merge_next ? next->block.size : 0);
        if (merge_next)
            erase(next);
    } else if (merge_next) {
        next->block = (struct block){block->pointer, block->size + next->block.size, block->head};
    } else if (next) {
        struct entry *entry = new_entry(block);
        TAILQ_INSERT_BEFORE(next, entry, link);
    } else {
        struct entry *entry = new_entry(block);
        TAILQ_INSERT_TAIL(&entries, entry, link);
    }
}

static bool take(size_t size, struct block *block) {
    struct entry *entry, *best = NULL;
    TAILQ_FOREACH (entry, &entries, link)
        if (entry->block.size >= size && (!best || entry->block.size < best->block.size))
            best = entry;
    if (!best)
        return false;
    *block = best->block;
    erase(best);
    return true;
}

static bool expand(size_t size, struct block *block) {
    struct upstream *fresh = malloc(sizeof *fresh);
    while (pool_size < size)
        pool_size *= 2;
    if (!fresh || cuMemAlloc_v2((CUdeviceptr *)&fresh->pointer, pool_size) != CUDA_SUCCESS) {
        free(fresh);
        return false;
    }
    RB_INSERT(upstreams, &upstreams, fresh);
    *block = (struct block){fresh->pointer, pool_size, true};
    pool_size *= 2;
    return true;
}

int reference_malloc(uintptr_t *pointer, size_t bytes) {
    size_t size = (bytes + UNIT - 1) & ~(size_t)(UNIT - 1);
    struct block block = {0, 0, false};
    pthread_mutex_lock(&lock);
    bool found = take(size, &block) || expand(size, &block);
    if (found && block.size > size) {
        struct block rest = {block.pointer + size, block.size - size, false};
        insert(&rest);
    }
    pthread_mutex_unlock(&lock);
    *pointer = block.pointer;
    return found ? 0 : 2;
}

int reference_free(uintptr_t pointer, size_t bytes) {
    struct upstream key = {.pointer = pointer};
    struct block block = {pointer, (bytes + UNIT - 1) & ~(size_t)(UNIT - 1), false};
    pthread_mutex_lock(&lock);
    block.head = RB_FIND(upstreams, &upstreams, &key) != NULL;
    insert(&block);
    pthread_mutex_unlock(&lock);
    return 0;
}
