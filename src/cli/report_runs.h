/* The table of the runs that a report adds up. */
#ifndef POOLCUDA_CLI_REPORT_RUNS_H
#define POOLCUDA_CLI_REPORT_RUNS_H

#include "cli/merge.h"

#include <stdio.h>

/* A line for each run, those that held most first; all: not only the first of them. */
void report_runs(FILE *out, const struct merge *merge, bool all);

#endif
