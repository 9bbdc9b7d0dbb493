/* Many runs as one: ranks of a job, runs of a program. Memory does not grow with the number of
 * runs, but for a row of each. */
#ifndef POOLCUDA_CLI_MERGE_H
#define POOLCUDA_CLI_MERGE_H

#include "observe/page.h"

/* One run, in a line. Bytes; leaked: live at the end of a run that came to its end. */
struct merge_run {
    char *file, *command, *host;
    uint64_t process, allocations, hits, peak_held, leaked_blocks, leaked_bytes, oom_events;
    double seconds;
    int32_t rank; /* -1: none */
    bool finished;
};

/* Invariant: page holds the sums of run_count runs. Gauges and counters are added up; a device's
 * capacity and peaks are those of the run that had most, since the runs' devices need not be the
 * same. Sites are the same where their modules' path and build id and their offsets are. */
struct merge {
    struct stats_page *page;
    struct merge_run *runs;
    size_t run_count;
    struct merge_site *sites; /* private to merge.c */
};

/* False without memory. */
bool merge_init(struct merge *merge);
/* Adds a run that was read from `file`. False without memory: it is then not in the sums. */
bool merge_add(struct merge *merge, const struct stats_page *page, const char *file);
void merge_free(struct merge *merge);

#endif
