/* Free addresses. Which are taken depends on nothing but what was taken and given before, so that a
 * program's runs have the same ones, relative to the first. */
#ifndef SIMCUDA_ADDRESS_RUNS_H
#define SIMCUDA_ADDRESS_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bsd/sys/tree.h>

RB_HEAD(run_tree, run);

/* A zeroed one has none. */
struct address_runs {
    struct run_tree free;
};

/* Takes the lowest `bytes` addresses that are free, from a multiple of `alignment` on. False: no
 * room. */
bool address_runs_take(struct address_runs *runs, size_t bytes, size_t alignment,
                       uint64_t *address);
void address_runs_give(struct address_runs *runs, uint64_t address, size_t bytes);

/* Reserves `bytes` of the process's addresses without access, aligned to device pages. 0:
 * impossible. */
uint64_t address_runs_reserve(size_t bytes);

#endif
