/* The folder in which the processes of one user find each other: /dev/shm/poolcuda-UID.
 *
 * It has an *entry* for each process that pools: a file named PID, with the head of the process's
 * stats page as it was when it was made. The page itself is the memory whose number stands there
 * (segment.h). Where another pid namespace that shares /dev/shm has taken the name, it is
 * PID-NAMESPACE. Nothing in it is trusted: another user may have made the folder first, and other
 * programs of this user may write what they like. No lock; a head is read into the heap. */
#ifndef POOLCUDA_PEERS_SHARE_FOLDER_H
#define POOLCUDA_PEERS_SHARE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the path begins with; the user's number follows. */
#define SHARE_FOLDERS "/dev/shm/poolcuda-"

enum { SHARE_NAME = 48, SHARE_FOLDER = 64 };

struct stats_head;
struct stats_page;

/* Writes the folder's path, which is made of the effective user id. */
void share_folder_path(char path[SHARE_FOLDER]);

/* Opens the folder, after making it if `make`. -1: there is none, or it is not this user's alone
 * (errno is then EPERM), or the process has rights that its user has not. */
int share_folder_open(bool make);

/* Opens the folder of a user, to look only: what is there is that user's, and is to be left as it
 * is. errno is EACCES where this process may not read it, else as above. */
int share_folder_open_of(uint32_t user);

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

/* An entry, opened; live: its page, once share_read_head has found it. */
struct share_page {
    int file;
    uint32_t owner;
    bool writable;
    struct stats_page *live;
};

/* Opens an entry. False: it is no regular file of the folder's user. writable: to post a request.
 * To be closed in either case. */
bool share_open_page(int folder, const char *name, bool writable, struct share_page *page);
void share_close_page(struct share_page *page);
/* Closes the descriptor alone, which a page that was found does without. */
void share_close_entry(struct share_page *page);

/* Reads a page's head, as it is now; or, without a page to be found, as its entry has it: its
 * process has ended, or is in a container with other memory to share (IPC namespace). False: the
 * entry is none of this version. Texts may lack their end. */
bool share_read_head(struct share_page *page, struct stats_head *head);

/* Copies the head of a page. False: it is none of this version. */
bool share_copy_head(const struct stats_page *page, struct stats_head *head);

/* Whether an entry of this name is the page's own: no other process answers for it. */
bool share_is_named(const char *name, const struct stats_head *head);

/* This process's pid namespace; 0: not known. */
uint64_t share_namespace(void);
/* When the process began, in clock ticks since boot; 0: there is none, or /proc does not say. */
uint64_t share_born(uint64_t process);

/* Whether the process of the page is gone: it has ended, or has become another program by exec. A
 * process in another pid namespace counts as alive, since nothing is known of it. */
bool share_is_stale(const struct stats_head *head);

/* Whether something that is no page of this version has the name. */
bool share_is_damaged(int folder, const char *name);

/* Removes an entry if no process is behind it: that of a stale page, what was killed while it was
 * made, and whatever else is none: cut off, damaged, a link, a pipe, an empty folder. A page that
 * has outlived its process ends, its last figures in the file of POOLCUDA_STATS_FILE. What another
 * user could have put there is not looked at: such a folder is never opened. */
void share_clear(int folder, const char *name);

/* Removes what has this process's own name, which nobody alive has: what it left before an exec,
 * even of the same program, or a process that had the number earlier. A page of that name ends as
 * in share_clear. */
void share_clear_own(int folder, const char *name);

#endif
