/* What programs that came to their end had not freed. */
#ifndef POOLCUDA_CLI_LEAKS_H
#define POOLCUDA_CLI_LEAKS_H

#include "cli/merge.h"
#include "report/report.h"

#include <stdio.h>

/* Prints a line for each site with live blocks, most bytes first. names: as stats_report takes
 * it. */
void leaks_print(FILE *out, const struct merge *merge, const struct stats_names *names);

#endif
