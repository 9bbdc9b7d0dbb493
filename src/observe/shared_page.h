/* This process's own stats page, where its user's tools find it: a file in share_folder.h's folder.
 *
 * A full /dev/shm must not end the program: of the file's mapping only what share_reserve has
 * reserved may be touched, to write or to read. No file stays open. Everything that fails means
 * only that the page is not shared, or that a table of it is full. */
#ifndef POOLCUDA_OBSERVE_SHARE_H
#define POOLCUDA_OBSERVE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

struct stats_page;

/* Makes and maps the file, zeroed, with the part up to the tables reserved. Nobody finds it before
 * share_publish. NULL: not possible. */
struct stats_page *share_open(void);

/* Gives the page its name, once its head is complete. False: it has none. */
bool share_publish(const struct stats_page *page);

/* Names the file of POOLCUDA_STATS_FILE, which the page is a mapping of, in the folder. */
void share_link(const struct stats_page *page, const char *path);

/* Reserves part of the page, which share_open has made or not; true at once where it is no shared
 * one, or done already. Not for several threads at once. */
bool share_reserve(size_t offset, size_t length);

/* Copies what is reserved of the page to `copy`, which is zeroed. False: the page is no shared one.
 */
bool share_copy(struct stats_page *copy, const struct stats_page *page);

/* At the end of the process: takes the name away. The mapping stays. */
void share_close(void);

/* In a forked child: the file is the parent's. */
void share_forget(void);

#endif
