/* How the runs of a job differ: which one stands out, by what, on which host and at which site. */
#ifndef POOLCUDA_CLI_REPORT_SPREAD_H
#define POOLCUDA_CLI_REPORT_SPREAD_H

#include "cli/merge.h"
#include "report/report.h"

#include <stdio.h>

/* Prints it, for two runs or more. all: every host and every site. */
void report_spread(FILE *out, const struct merge *merge, const struct stats_names *names, bool all);

#endif
