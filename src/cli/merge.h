/* Many runs as one: ranks of a job, runs of a program. Memory does not grow with the number of
 * runs, but for a row of each, of a few hundred bytes. */
#ifndef POOLCUDA_CLI_MERGE_H
#define POOLCUDA_CLI_MERGE_H

#include "cli/run_history.h"
#include "cli/spread.h"
#include "counters/page.h"

/* One run, in a line. Bytes; leaked: live at the end of a run that came to its end. */
struct merge_run {
    char *file, *command, *host;
    uint64_t process, allocations, hits, peak_held, leaked_blocks, leaked_bytes, oom_events;
    uint64_t wait_ns, start_wall_ns;
    uint64_t peak_live;
    double seconds;
    int32_t rank; /* -1: none */
    bool finished;
    bool idle_unbounded; /* one process alone, in which POOLCUDA_MAX_IDLE was not set */
    struct run_history history;
};

/* Invariant: page holds the sums of run_count runs. Gauges and counters are added up; a device's
 * capacity and peaks are those of the run that had most, since the runs' devices need not be the
 * same. Sites are the same where their modules' path and build id and their offsets are. */
struct merge {
    struct stats_page *page;
    struct merge_run *runs;
    size_t run_count;
    struct merge_site *sites;                /* private to merge.c, as is the next */
    struct merge_site *by_index[PAGE_SITES]; /* of the page's sites */
};

/* False without memory. */
bool merge_init(struct merge *merge);
/* Adds a run that was read from `file`. False without memory: it is then not in the sums. */
bool merge_add(struct merge *merge, const struct stats_page *page, const char *file);
/* The site's peaks in each run that has it, which are named by their places among the runs. NULL:
 * the site is none of its own, as site 0. */
const struct spread *merge_site_peaks(const struct merge *merge, uint32_t site);
void merge_free(struct merge *merge);

#endif
