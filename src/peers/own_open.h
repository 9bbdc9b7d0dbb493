/* The process's own stats page (counters/own_page.h): made, and let go of. */
#ifndef POOLCUDA_PEERS_OWN_OPEN_H
#define POOLCUDA_PEERS_OWN_OPEN_H

#include <stdbool.h>

/* Starts recording. path_pattern: the file of POOLCUDA_STATS_FILE (page_file.h), about which `say`
 * may get a line. share: other processes of this user find the page (share_folder.h), where that is
 * possible. */
void stats_open(const char *path_pattern, bool share, void (*say)(const char *line));

/* In a forked child: lets go of the parent's page and file. Counting starts from zero, and nothing
 * is reported unless stats_open is called again. */
void stats_forget_after_fork(void);

#endif
