/* A sweep: a trace under every preset, and without the pool, on devices from just as large as its
 * peak of live memory to three times that; and what in it is a defect. */
#ifndef POOLCUDA_CLI_SWEEP_CLIFFS_H
#define POOLCUDA_CLI_SWEEP_CLIFFS_H

#include "cli/replay.h"

#include <stddef.h>
#include <stdint.h>

enum { SWEEP_SIZES = 24, SWEEP_ROWS = 9, SWEEP_CLIFFS = SWEEP_SIZES * SWEEP_ROWS };

/* On a device of `at` a preset serves much less from idle memory than on a smaller one, `before`,
 * which is at most 4% smaller, and the run without the pool fails no more allocations: a defect.
 * Places among the sizes. */
struct sweep_cliff {
    size_t row, before, at;
};

/* Rows are the presets, in their table's order, and last the run without the pool. */
struct sweep {
    uint64_t peak_bytes; /* of live requests */
    uint64_t memory[SWEEP_SIZES];
    const char *names[SWEEP_ROWS];
    struct replay_result results[SWEEP_ROWS][SWEEP_SIZES];
    struct sweep_cliff cliffs[SWEEP_CLIFFS];
    size_t cliff_count;
};

/* Sizes of the device in percent of the peak of live memory: closest where memory is scarce. */
extern const unsigned sweep_percents[SWEEP_SIZES];

/* Notes the cliffs of what was replayed. */
void sweep_find_cliffs(struct sweep *sweep);

#endif
