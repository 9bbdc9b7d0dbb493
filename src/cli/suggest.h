/* What to do next, by what a report shows. */
#ifndef POOLCUDA_CLI_SUGGEST_H
#define POOLCUDA_CLI_SUGGEST_H

#include "cli/merge.h"

#include <stdio.h>

/* Settings that the figures speak for, each with its reason, and the next command to type. page:
 * the only run, or the sums of all. */
void suggest(FILE *out, const struct merge *merge, const struct stats_page *page);

/* Runs `poolcuda tune` on the trace that the run has recorded. False after one line if there is
 * none or that fails. */
bool suggest_by_tuning(const struct stats_page *page);

#endif
