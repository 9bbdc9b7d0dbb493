/* The report of a call that failed because the device had no memory. */
#ifndef POOLCUDA_REPORT_SHORTAGE_H
#define POOLCUDA_REPORT_SHORTAGE_H

#include "call_site.h"

#include <stddef.h>
#include <stdint.h>

enum { SHORTAGE_SITES = 3 };

/* Sizes in bytes. The sites are those with most live memory, largest first. */
struct shortage {
    const char *call; /* the driver function */
    size_t requested; /* 0: not known */
    int device;
    uint64_t capacity, available; /* cuDeviceTotalMem; what cuMemGetInfo says is free */
    uint64_t live, idle;          /* held by the pool on this device */
    uint64_t waste;               /* in live blocks of the process, beyond what was requested */
    unsigned site_count;
    struct {
        struct call_site key;
        uint64_t bytes, blocks;
    } sites[SHORTAGE_SITES];
};

/* Opens where reports go besides the stats: "" nowhere, "stderr", or a file to append to, %p
 * replaced by the process id. If the file cannot be opened that is said in one line, and stderr is
 * used. */
void shortage_open_log(const char *pattern, void (*say)(const char *line));

/* Reports one failure. The log gets the first few of a process and then ever fewer; the stats keep
 * the last. Thread-safe; allocates nothing. */
void shortage_tell(const struct shortage *shortage);

/* Writes the text of the report, cut off at `size`. */
void shortage_text(const struct shortage *shortage, char *text, size_t size);

#endif
