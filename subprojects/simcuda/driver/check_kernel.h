/* A kernel for checking memory, which a client launches with a list of tasks of its own:
 *
 *   poolcuda_check(u64 tasks, u32 count, u64 report)
 *
 * `tasks` is the device address of `count` struct check_task, `report` that of one struct
 * check_failure, both aligned to 8 bytes, in memory that the device reaches. The name and the
 * layouts are those of poolcuda's POOLCUDA_CHECK, whose PTX a real GPU runs with the same results;
 * a client that brings PTX with an entry of this name gets this kernel.
 *
 * Tasks of one launch run in any order. A task reads or writes nothing but its bytes: where they
 * are no memory that kernels may touch, the context is lost (ILLEGAL_ADDRESS). */
#ifndef SIMCUDA_CHECK_KERNEL_H
#define SIMCUDA_CHECK_KERNEL_H

#include <stdint.h>

#define CHECK_KERNEL_NAME "poolcuda_check"

enum check_op {
    CHECK_FILL,  /* writes the pattern to every byte */
    CHECK_VERIFY /* notes the lowest and the highest byte that is not the pattern */
};

struct check_task {
    uint64_t address; /* of the device; any alignment */
    uint64_t bytes;   /* 0: nothing to do */
    uint64_t id;      /* what a failure names; unique, and not CHECK_NO_FAILURE */
    uint32_t op;      /* enum check_op */
    uint32_t pattern; /* its lowest 8 bits are the byte */
};

_Static_assert(sizeof(struct check_task) == 32, "the tasks' stride");

/* The first task that found wrong bytes since the client cleared the report; later ones leave no
 * trace. Cleared is {CHECK_NO_FAILURE, UINT64_MAX, 0}. */
struct check_failure {
    uint64_t id;    /* CHECK_NO_FAILURE, or the task's */
    uint64_t first; /* offset in the task's bytes of the lowest wrong one */
    uint64_t last;  /* offset of the highest: at least first */
};

_Static_assert(sizeof(struct check_failure) == 24, "what a client makes room for");

#define CHECK_NO_FAILURE UINT64_MAX

#endif
