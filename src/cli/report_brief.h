/* What a job's processes did, in one line. */
#ifndef POOLCUDA_CLI_REPORT_BRIEF_H
#define POOLCUDA_CLI_REPORT_BRIEF_H

#include "cli/merge.h"

#include <stdio.h>

/* page: the sum of the runs, or the one that there is. */
void report_brief(FILE *out, const struct merge *merge, const struct stats_page *page);

#endif
