/* The process's own stats page, beside what is counted in it (stats.h): what it notes of the
 * process. peers/own_open.h makes it, report/own_report.h turns it into a report. */
#ifndef POOLCUDA_COUNTERS_OWN_PAGE_H
#define POOLCUDA_COUNTERS_OWN_PAGE_H

#include "counters/page.h"

/* Notes an option "NAME=VALUE" that was set while the program runs, for the report. */
void stats_option(const char *setting);

/* Notes the file that allocations are recorded in, for the report. */
void stats_trace(const char *path);

/* Notes another tool that is in this process, for the report. */
void stats_tool(const char *name);

/* Keeps the text, shortened if need be, for the end of the report. With POOLCUDA_STATS_FILE the
 * file gets the page, at most ten times a second because of this. LOCK_POOL not held. */
void stats_shortage(const char *text);

/* Notes a module whose calls of `name` go past us (opened with RTLD_DEEPBIND, say), for the
 * report. */
void stats_bypass(const char *module, const char *name);

#endif
