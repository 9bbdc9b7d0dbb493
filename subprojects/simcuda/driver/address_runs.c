#include "address_runs.h"

#include "allocate.h"
#include "memory.h"

#include <stdlib.h>
#include <sys/mman.h>

/* A run of free addresses. Invariant: runs neither overlap nor touch. */
struct run {
    RB_ENTRY(run) node;
    uint64_t address;
    size_t size;
};

static int compare_runs(const struct run *a, const struct run *b) {
    return (a->address > b->address) - (a->address < b->address);
}

// NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the analyzer loses track of the tree
RB_GENERATE_INTERNAL(run_tree, run, node, compare_runs, __attribute__((unused)) static)

static struct run *add(struct address_runs *runs, uint64_t address, size_t size) {
    struct run *run = allocate_zeroed(sizeof *run);

    run->address = address;
    run->size = size;
    RB_INSERT(run_tree, &runs->free, run);
    return run;
}

static void drop(struct address_runs *runs, struct run *run) {
    RB_REMOVE(run_tree, &runs->free, run);
    free(run);
}

bool address_runs_take(struct address_runs *runs, size_t bytes, size_t alignment,
                       uint64_t *address) {
    struct run *run;

    RB_FOREACH (run, run_tree, &runs->free) {
        uint64_t skipped = (alignment - run->address % alignment) % alignment;

        if (run->size < skipped || run->size - skipped < bytes)
            continue;
        *address = run->address + skipped;
        if (skipped != 0) { /* what is skipped stays where it is */
            size_t rest = run->size - skipped - bytes;

            run->size = skipped;
            if (rest != 0)
                add(runs, *address + bytes, rest);
            return true;
        }
        run->address += bytes; /* stays between its neighbours: the tree's order holds */
        run->size -= bytes;
        if (run->size == 0)
            drop(runs, run);
        return true;
    }
    return false;
}

void address_runs_give(struct address_runs *runs, uint64_t address, size_t bytes) {
    struct run *run = add(runs, address, bytes);
    struct run *after = RB_NEXT(run_tree, &runs->free, run);
    struct run *before = RB_PREV(run_tree, &runs->free, run);

    if (after != NULL && address + bytes == after->address) {
        run->size += after->size;
        drop(runs, after);
    }
    if (before != NULL && before->address + before->size == address) {
        before->size += run->size;
        drop(runs, run);
    }
}

uint64_t address_runs_reserve(size_t bytes) {
    void *at = mmap(NULL, bytes + memory_page, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return at == MAP_FAILED ? 0 : ((uintptr_t)at + memory_page - 1) / memory_page * memory_page;
}
