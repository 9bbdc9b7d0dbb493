/* The layout of the stats page: in memory, and as the file that a killed program leaves.
 *
 * All integers are in the machine's own byte order; a page is read on the machine that wrote it. A
 * reader must check everything: page.c does. */
#ifndef POOLCUDA_OBSERVE_PAGE_H
#define POOLCUDA_OBSERVE_PAGE_H

#include "observe/stats.h"

enum {
    PAGE_VERSION = 6, /* grows with every change of this layout */
    PAGE_MODULES = 256,
    PAGE_MODULE_NAME = 256,
    PAGE_SITES = 4096,
    PAGE_BYPASSES = 8,
    PAGE_PAYERS = 64,
    PAGE_SHORTAGE = 1536,
    PAGE_TOOLS = 128,
    PAGE_TRACE = 256,
    PAGE_COMMAND = 128,
    PAGE_BANNER = 128,
};

/* The first bytes of a page, so that a person who opens the file knows what it is. */
#define PAGE_MAGIC "poolcuda figures of a running or killed program; to read them: poolcuda report"

/* Invariant: module 0 is the unknown one, site 0 the sum of all sites beyond the table; the counts
 * include them. A site below site_count with depth 0 is being written. Only a page that is touched
 * takes memory: an unused part of the tables costs nothing. */
struct stats_page {
    char banner[PAGE_BANNER]; /* PAGE_MAGIC, a newline, zeros */
    uint32_t version, counter_count, route_count, wait_reason_count;
    _Atomic uint32_t finished; /* 1 once the program has come to its end */
    uint64_t process;
    char command[PAGE_COMMAND];
    char tools[PAGE_TOOLS];       /* other tools in the process, separated by ", " */
    char trace[PAGE_TRACE];       /* the file of POOLCUDA_TRACE, "" without one */
    char shortage[PAGE_SHORTAGE]; /* the last report of an allocation that failed, "" if none did */
    _Atomic uint64_t counters[STATS_COUNTERS];
    _Atomic uint64_t routes[STATS_ROUTES];
    _Atomic uint64_t waits[WAIT_REASONS];
    _Atomic uint32_t module_count, site_count, bypass_count, payer_count;
    struct {
        char name[56];
        _Atomic uint64_t count;
    } payers[PAGE_PAYERS]; /* the last: all that found no place */
    char modules[PAGE_MODULES][PAGE_MODULE_NAME];
    struct {
        char module[PAGE_MODULE_NAME];
        char name[64];
    } bypasses[PAGE_BYPASSES];
    struct stats_site sites[PAGE_SITES];
};

#endif
