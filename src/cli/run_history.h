/* What a run held over its time, in a few dozen levels: small enough to be kept for each rank of a
 * large job. */
#ifndef POOLCUDA_CLI_RUN_HISTORY_H
#define POOLCUDA_CLI_RUN_HISTORY_H

#include "counters/page.h"

enum { RUN_COLUMNS = 64, RUN_LEVELS = 64 };

/* Columns are equal parts of the run's time; each has the most that was held in it on all devices
 * together, in RUN_LEVELS - 1 parts of `top`. top 0: nothing is known. */
struct run_history {
    uint64_t top;
    uint8_t levels[RUN_COLUMNS];
};

void run_history(const struct stats_page *page, struct run_history *history);

#endif
