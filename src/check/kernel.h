/* What checking runs on the GPU: one kernel, launched with a list of tasks. The library launches
 * its PTX (kernel_ptx.h); the simulated GPU has a kernel of the same name and results.
 *
 *   poolcuda_check(u64 tasks, u32 count, u64 report)
 *
 * `tasks` is the device address of `count` struct check_task, `report` that of one struct
 * check_failure, each aligned to 8 bytes and in host memory that the device reaches. Block (x, y)
 * takes part in the tasks x, x + gridDim.x, ..., and the blocks of one x share each task's bytes:
 * any grid and any one-dimensional block give the same result.
 *
 * Tasks of one launch run in any order and at the same time. A task reads or writes nothing but its
 * bytes, which must lie in memory that kernels may touch: else the context is lost
 * (ILLEGAL_ADDRESS), as with any kernel. */
#ifndef POOLCUDA_CHECK_KERNEL_H
#define POOLCUDA_CHECK_KERNEL_H

#include <stdint.h>

#define CHECK_KERNEL_NAME "poolcuda_check"

enum check_op {
    CHECK_FILL,  /* writes the pattern to every byte */
    CHECK_VERIFY /* notes the lowest and the highest byte that is not the pattern */
};

/* The layouts are the kernel's: it addresses members by their offsets. */
struct check_task {
    uint64_t address; /* of the device; any alignment */
    uint64_t bytes;   /* 0: nothing to do */
    uint64_t id; /* what a failure names: unique among the tasks since the report was cleared */
    uint32_t op; /* enum check_op */
    uint32_t pattern; /* its lowest 8 bits are the byte */
};

_Static_assert(sizeof(struct check_task) == 32, "the kernel's stride");

/* The first task since the report was cleared that found wrong bytes; later ones leave no trace.
 * Which one is first within a launch is not determined, what it says of that task is. Complete once
 * the launch has ended: until then more wrong bytes may be found. */
struct check_failure {
    uint64_t id;    /* CHECK_NO_FAILURE, or the task's */
    uint64_t first; /* offset in the task's bytes of the lowest wrong one */
    uint64_t last;  /* offset of the highest: at least first */
};

#define CHECK_NO_FAILURE UINT64_MAX /* no task's id */

/* A cleared report. Clear it only while no launch is under way that was given it. */
#define CHECK_FAILURE_CLEARED                                                                      \
    ((struct check_failure){.id = CHECK_NO_FAILURE, .first = UINT64_MAX, .last = 0})

/* A good shape for a launch: blocks of CHECK_KERNEL_THREADS, of which each pass covers 2 KiB, in a
 * grid of count * check_kernel_rows(). */
enum { CHECK_KERNEL_THREADS = 128, CHECK_KERNEL_WORD = 16 /* bytes of one access */ };

/* How many blocks share each task where the largest has so many bytes: one for 16 KiB, so that a
 * thread makes up to 8 passes, as long as that is not too many blocks. */
static inline unsigned int check_kernel_rows(uint64_t largest) {
    const uint64_t share = 8 * CHECK_KERNEL_THREADS * CHECK_KERNEL_WORD, most = 64;
    uint64_t rows = largest / share + (largest % share != 0);

    return (unsigned int)(rows == 0 ? 1 : rows < most ? rows : most);
}

#endif
