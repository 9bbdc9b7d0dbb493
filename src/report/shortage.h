/* The report of a call that failed because the device had no memory. */
#ifndef POOLCUDA_REPORT_SHORTAGE_H
#define POOLCUDA_REPORT_SHORTAGE_H

#include "pool/shortage_report.h"

/* Opens where reports go besides the stats: "" nowhere, "stderr", or a file to append to, %p
 * replaced by the process id. If the file cannot be opened that is said in one line, and stderr is
 * used. */
void shortage_open_log(const char *pattern, void (*say)(const char *line));

/* Reports one failure. The log gets the first few of a process and then ever fewer; the stats keep
 * the last. Thread-safe; allocates nothing. */
void shortage_tell(const struct shortage *shortage);

/* Writes the text of the report, cut off at `size`. */
void shortage_text(const struct shortage *shortage, char *text, size_t size);

#endif
