/* Writing a trace as CSV: docs/traces.md. */
#ifndef POOLCUDA_TRACE_WRITE_CSV_H
#define POOLCUDA_TRACE_WRITE_CSV_H

#include "trace/trace.h"

#include <stdio.h>

/* Writes all events, with the column `device` if there are several. Read back, it is the same
 * trace, without what was said of the recording's end (cut_off, lost_events). False if `out` has
 * failed. */
bool trace_write_csv(const struct trace *trace, FILE *out);

#endif
