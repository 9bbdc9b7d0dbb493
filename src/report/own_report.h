/* The process's own stats page, turned into a report at the end. */
#ifndef POOLCUDA_REPORT_OWN_REPORT_H
#define POOLCUDA_REPORT_OWN_REPORT_H

#include "report/report.h"

/* To be called at exit: writes the report to the file that stats_open made (in the page's place; as
 * JSON unless text is asked for), or to what it opened that is no file. Without one it goes to
 * standard error: in the form that is asked for, or as text in the place of a file that could not
 * be had. */
void stats_finish(enum stats_form form);

/* To be called before the program shuts itself in by seccomp: takes the shared page out of the
 * folder where others find it, and the file of POOLCUDA_STATS_FILE gets the page for the last time.
 * From here on counting needs no file. A report that stats_finish could not write any more
 * (output_file.h) is written now. */
void stats_shut_in(enum stats_form form);

#endif
