/* The processes that pool just now, as their pages say: see peers/share_folder.h. */
#ifndef POOLCUDA_CLI_LIVE_H
#define POOLCUDA_CLI_LIVE_H

#include "counters/page.h"
#include "peers/share_folder.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One device that a process uses, by the process's own ordinal. Bytes. */
struct live_device {
    int ordinal;
    uint64_t capacity, in_use, idle, waste, peak_held, allocations, hits;
    uint8_t uuid[STATS_UUID];
};

/* A copy of a page's figures, taken at `read_ns` (CLOCK_MONOTONIC). Its texts end, but may hold
 * anything; so may the numbers. */
struct live_process {
    char name[SHARE_NAME]; /* its entry in the folder: the process id, mostly */
    bool here;             /* in this pid namespace: else `process` is no number of ours */
    uint64_t read_ns;
    uint32_t user;     /* who owns its entry: what a page says cannot change that */
    uint32_t bypasses; /* pieces of code that were found to call the driver past the pool */
    struct stats_head head;
    unsigned device_count;
    struct live_device devices[PAGE_DEVICES];
};

struct live_list {
    struct live_process *processes; /* by process id */
    size_t count;
    size_t damaged; /* entries that are no pages of this version, and are not shown */
    char damaged_path[SHARE_FOLDER + SHARE_NAME]; /* one of them */
    size_t closed;                                /* folders of other users that may not be read */
};

/* Whose processes, and whether what dead ones have left is cleared away. */
enum live_scope {
    LIVE_OWN,  /* this user's, cleared */
    LIVE_LOOK, /* this user's, and nothing is changed: where one may not write, what a killed
                * process leaves must not be ended before it is saved */
    LIVE_ALL,  /* all users' that may be read; nothing is changed */
};

/* Copies what a page says; returns whether it is one. */
bool live_read(const struct stats_page *page, struct live_process *process);

/* Reads the processes, without those that are gone, and those whose memory cannot be shared
 * (share_read_head). False, with one line in `error`, if there is a folder
 * that cannot be used, or no memory. Free with live_free. */
bool live_list(struct live_list *list, enum live_scope scope, char *error, size_t error_size);
void live_free(struct live_list *list);

/* Says in one line each that entries or folders could not be read, if so. */
void live_tell_missed(const struct live_list *list, const char *command);

/* The process that has this name in the folder; NULL: none. */
const struct live_process *live_find(const struct live_list *list, const char *name);

/* The user's name, or number where it has none, in `text`. */
enum { LIVE_USER = 64 };
const char *live_user(uint32_t user, char text[LIVE_USER]);

uint64_t live_now(void); /* CLOCK_MONOTONIC, nanoseconds */

#endif
