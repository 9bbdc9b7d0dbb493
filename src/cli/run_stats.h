/* Files that a program has made under a name with %p and the like in it. */
#ifndef POOLCUDA_CLI_FIGURES_H
#define POOLCUDA_CLI_FIGURES_H

#include <stddef.h>
#include <time.h>

/* Invariant: count > 0 exactly if only is set, the path of one of them. prefix: what all their
 * paths begin with. */
struct figures {
    size_t count;
    char *prefix, *only;
};

/* The files that `pattern` (a path; everything from the first % on may have become anything) names
 * and that have been made since `since`. Free them with run_stats_destroy. */
struct figures run_stats_made(const char *pattern, struct timespec since);

void run_stats_destroy(struct figures *figures);

#endif
