/* The folder in which the processes of one user find each other: /dev/shm/poolcuda-UID.
 *
 * It holds the stats page of each process that pools, as a file named PID, or a symbolic link of
 * that name to the file of POOLCUDA_STATS_FILE. Where another pid namespace that shares /dev/shm
 * has taken the name, it is PID-NAMESPACE. Nothing in it is trusted: another user may have made the
 * folder first, and other programs of this user may write what they like. Only file operations; no
 * lock, no heap. */
#ifndef POOLCUDA_OBSERVE_SHARE_FOLDER_H
#define POOLCUDA_OBSERVE_SHARE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHARE_NAME = 48, SHARE_FOLDER = 64 };

struct stats_head;

/* Writes the folder's path, which is made of the effective user id. */
void share_folder_path(char path[SHARE_FOLDER]);

/* Opens the folder, after making it if `make`. -1: there is none, or it is not this user's alone
 * (errno is then EPERM), or the process has rights that its user has not. */
int share_folder_open(bool make);

/* Walks through the entries that may be processes; unfinished: and those that are being made. Start
 * with all zeros but these two. */
struct share_walk {
    int folder;
    bool unfinished;
    uint32_t at, end;
    _Alignas(8) char entries[4096];
    char name[SHARE_NAME];
};
/* Returns false at the end; else walk->name is the next one. */
bool share_walk_next(struct share_walk *walk);

/* Opens the page behind an entry, whose links are followed once. -1: it is no regular file of this
 * user. writable: to post a request. */
int share_open_page(int folder, const char *name, bool writable);

/* Reads a page's head. Returns whether it is a page of this version; texts may lack their end. */
bool share_read_head(int file, struct stats_head *head);

/* Whether an entry of this name is the page's own: no other process answers for it. */
bool share_is_named(const char *name, const struct stats_head *head);

/* This process's pid namespace; 0: not known. */
uint64_t share_namespace(void);
/* When the process began, in clock ticks since boot; 0: there is none, or /proc does not say. */
uint64_t share_born(uint64_t process);

/* Whether the process of the page is gone: it has ended, or has become another program by exec. A
 * process in another pid namespace counts as alive, since nothing is known of it. */
bool share_is_stale(const struct stats_head *head);

/* Removes the entry if it still is that page. */
void share_remove_stale(int folder, const char *name, int file);

/* Whether something that is no page of this version has the name. */
bool share_is_damaged(int folder, const char *name);

/* Removes an entry if no process is behind it: a stale page, a link that leads to no page any more,
 * what was killed while it was made, and whatever else is no page: cut off, damaged, a pipe, an
 * empty folder. What another user could have put there is not looked at: such a folder is never
 * opened. */
void share_clear(int folder, const char *name);

#endif
