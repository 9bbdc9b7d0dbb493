/* Files that the processes of a run have made under a name with %p and the like in it. */
#ifndef POOLCUDA_CLI_FIGURES_H
#define POOLCUDA_CLI_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum figures_kind { FIGURES_REPORTS, FIGURES_TRACES };

/* paths[count]: sorted. prefix: what all of them begin with; is_all: they are all files that do.
 * lost_...: what the programs themselves could not write, by the counts in their reports. */
struct figures {
    size_t count;
    char **paths, *prefix;
    bool is_all;
    uint64_t lost_log, lost_check, lost_trace;
};

/* The files that `pattern` (output_file.h) can have become, whose content is what such a
 * file has, and that processes which have begun since `since` have made since. A report of another
 * host's process counts by the file's time alone, since that host's clock may be another; a trace
 * does not tell its host. Free them with run_stats_destroy. */
struct figures run_stats_made(const char *pattern, enum figures_kind kind, struct timespec since);

void run_stats_destroy(struct figures *figures);

#endif
