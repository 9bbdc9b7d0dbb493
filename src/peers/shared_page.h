/* This process's own stats page, where its user's tools find it: memory that others can join
 * (segment.h), whose number stands in a file of share_folder.h's folder, as long as the process
 * lasts. Nobody maps the file, and none stays open: whatever becomes of it, the page is there.
 * Everything that fails means only that the page is not shared. */
#ifndef POOLCUDA_PEERS_SHARED_PAGE_H
#define POOLCUDA_PEERS_SHARED_PAGE_H

#include <stdbool.h>

struct stats_page;

/* Makes the page, zeroed but for its segment. Nobody finds it before share_publish. lasting: it
 * outlives a process that is killed, until somebody clears it away (share_clear). NULL: not
 * possible. */
struct stats_page *share_open(bool lasting);

/* Gives the page its name, once its head is complete. Without one it is as private as any. */
void share_publish(const struct stats_page *page);

/* At the end of the process: takes the name away. The memory stays, for this process. */
void share_close(void);

/* In a forked child: the page is the parent's. */
void share_forget(void);

#endif
