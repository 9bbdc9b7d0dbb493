/* The processes of this user that pool just now, as their pages say: see observe/share_folder.h. */
#ifndef POOLCUDA_CLI_LIVE_H
#define POOLCUDA_CLI_LIVE_H

#include "observe/page.h"
#include "observe/share_folder.h"

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
    struct stats_head head;
    unsigned device_count;
    struct live_device devices[PAGE_DEVICES];
};

struct live_list {
    struct live_process *processes; /* by process id */
    size_t count;
    size_t damaged; /* entries that are no pages of this version, and are not shown */
    char damaged_name[SHARE_NAME]; /* one of them */
};

/* Copies what a page says; returns whether it is one. */
bool live_read(const struct stats_page *page, struct live_process *process);

/* Reads all processes, and clears away those that are gone; those whose memory cannot be shared
 * with them are left out (share_read_head). False, with one line in `error`, if there is a folder
 * that cannot be used, or no memory. Free with live_free. */
bool live_list(struct live_list *list, char *error, size_t error_size);
void live_free(struct live_list *list);

/* Says in one line that not all could be read, if so. */
void live_tell_damaged(const struct live_list *list, const char *command);

/* The process that has this name in the folder; NULL: none. */
const struct live_process *live_find(const struct live_list *list, const char *name);

uint64_t live_now(void); /* CLOCK_MONOTONIC, nanoseconds */

#endif
