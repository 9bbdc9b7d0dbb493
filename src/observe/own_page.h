/* The process's own stats page, beside what is counted in it (stats.h): it is opened, told of the
 * process, turned into a report at the end, and let go of. */
#ifndef POOLCUDA_OBSERVE_OWN_PAGE_H
#define POOLCUDA_OBSERVE_OWN_PAGE_H

#include "observe/page.h"

/* Starts recording. path_pattern: the file of POOLCUDA_STATS_FILE (page_file.h), about which `say`
 * may get a line. share: other processes of this user find the page (share_folder.h), where that is
 * possible. */
void stats_open(const char *path_pattern, bool share, void (*say)(const char *line));

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

/* In a forked child: lets go of the parent's page and file. Counting starts from zero, and nothing
 * is reported unless stats_open is called again. */
void stats_forget_after_fork(void);

#endif
