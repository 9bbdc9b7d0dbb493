/* What SIMCUDA_REPORT gets at exit. */
#ifndef SIMCUDA_REPORT_H
#define SIMCUDA_REPORT_H

#include "entry.h"

#include <stdint.h>

const char *report_name(enum entry_point entry); /* as it is exported */
void report_count_call(enum entry_point entry);
uint64_t report_count_by_caller(void); /* counts what SIMCUDA_FAIL_CALL numbers; the total so far */
void report_injected(enum entry_point entry);
/* What the thread called last asked for `detail`, and did not get it; "": the function itself is
 * not simulated. Copied. */
void report_unserved(const char *detail);
void report_held(int64_t bytes); /* device memory held changed by `bytes`, in whole 2 MiB pages */
void report_hazard(const char *line); /* copied; also goes to stderr */
void report_forget_after_fork(void);

#endif
