/* What the files of the process's own page share: own_page.c has it. */
#ifndef POOLCUDA_COUNTERS_OWN_PAGE_PARTS_H
#define POOLCUDA_COUNTERS_OWN_PAGE_PARTS_H

#include "counters/own_page.h"

#include <sys/types.h>

/* How much of the page's tables is used, and what else is needed of it: the page itself is for
 * readers alone, since others of this user may write it. */
struct own_page_use {
    uint32_t modules, sites, tags, bypasses, payers;
    size_t options; /* its length */
    char tools[PAGE_TOOLS];
    uint64_t start_ns;
    uint32_t devices; /* a bit for each */
    bool shards[STATS_SHARDS];
    bool trace;
    size_t command_line; /* of its bytes */
    pid_t process;       /* whose page it is: a child of a bare clone() is none of fork's */
};
_Static_assert(PAGE_DEVICES <= 32, "a bit for each device");

extern struct own_page_use own_use;

/* NULL: there is none. own_shards are the page's, else early ones, as is own_early_device. */
extern struct stats_page *own_page;
extern struct stats_shard *own_shards;
extern struct stats_device own_early_device;

/* A page in memory that no other process can have; NULL: there is none. */
struct stats_page *own_page_private(void);
/* In a forked child: the page is its parent's, and counting starts anew. */
void own_page_forget(void);
/* Has the user told a line, as stats_open was asked to. */
extern void (*own_page_tell)(const char *line);

/* The module that contains an address, *offset into it; 0: the unknown one. */
uint32_t own_page_module(uintptr_t address, uint64_t *offset);
/* The tag's number in the page, from 1; 0: no room is left. */
uint32_t own_page_tag(const char *name);

#endif
