/* The layout of the stats page: in memory, and in the file of POOLCUDA_STATS_FILE until the report
 * takes its place.
 *
 * All integers are in the machine's own byte order; a page is read on the machine that wrote it. A
 * reader must check everything: page.c does. */
#ifndef POOLCUDA_COUNTERS_PAGE_H
#define POOLCUDA_COUNTERS_PAGE_H

#include "base/command_line.h"
#include "counters/stats.h"

enum {
    /* Grows with every change of this layout, but not with another row of counters.def, routes.def
     * or wait_reasons.def: how many there are is said in the page. */
    PAGE_VERSION = 16,
    PAGE_MODULES = 256,
    PAGE_MODULE_NAME = 227,
    PAGE_BUILD_ID = 28,
    PAGE_SITES = 4096,
    PAGE_TAGS = 512,
    PAGE_TAG = 64,
    PAGE_DEVICES = 16,
    PAGE_BYPASSES = 8,
    PAGE_PAYERS = 64,
    PAGE_SHORTAGE = 1536,
    PAGE_TOOLS = 128,
    PAGE_TRACE = 4096,
    PAGE_FILE = 4096,
    PAGE_COMMAND = 256,
    PAGE_HOST = 64,
    PAGE_JOB = 64,
    PAGE_STEP = 32,
    PAGE_OPTIONS = 1024,
    PAGE_BANNER = 128,
    PAGE_REQUEST = 256,
};

/* The first bytes of a page, so that a person who opens the file knows what it is. */
#define PAGE_MAGIC "poolcuda figures of a running or killed program; to read them: poolcuda report"

/* A loaded module that a site lies in. */
struct stats_module {
    char path[PAGE_MODULE_NAME];
    uint8_t build_id_size; /* 0: none */
    uint8_t build_id[PAGE_BUILD_ID];
};

/* Where another process of this user asks something of this one; see mailbox.h. */
struct stats_mailbox {
    _Atomic uint32_t posted, answered; /* serial numbers; a request waits while they differ */
    _Atomic uint32_t kind;             /* enum mailbox_kind */
    _Atomic int32_t device;
    _Atomic uint64_t bytes, released;
    char text[PAGE_REQUEST], answer[PAGE_REQUEST];
    _Atomic uint64_t until_ns; /* by CLOCK_MONOTONIC: when nobody waits any more */
    _Atomic uint64_t seal;     /* of the request's number and all that it says */
    _Atomic uint64_t claim;    /* who may write here: a request's number, until when */
    _Atomic uint64_t begun;    /* 1 + the number of the request that was carried out last, or is
                                  being; 0: none is */
};

/* How a page begins: who the process is, its mailbox, the counters. */
#define STATS_PAGE_HEAD                                                                            \
    char banner[PAGE_BANNER];                /* PAGE_MAGIC, a newline, zeros */                    \
    struct stats_shard shards[STATS_SHARDS]; /* here they lie at whole cache lines */              \
    uint32_t version, counter_count, route_count, wait_reason_count;                               \
    uint64_t size; /* of this struct */                                                            \
    uint32_t runs; /* how many runs are in it: 1; more once the command has merged them */         \
    _Atomic uint32_t finished; /* 1 once the program has come to its end */                        \
    int32_t rank;              /* in MPI, Slurm and the like; -1: none */                          \
    uint64_t process;          /* its id */                                                        \
    uint64_t namespace_id;     /* the inode of the process's pid namespace; 0: not known */        \
    uint64_t born;          /* when the process began, in clock ticks since boot; 0: not known */  \
    uint64_t start_wall_ns; /* when this page was made: the time of day, since 1970 */             \
    uint64_t start_ns;      /* the same moment by CLOCK_MONOTONIC */                               \
    uint64_t executable[2]; /* its file's device and inode; 0, 0: not known */                     \
    uint32_t segment;       /* 1 + the number of the memory that the page lies in; 0: private */   \
    uint32_t devices_used;  /* a bit for each: of others nothing need be read */                   \
    struct stats_mailbox mailbox;                                                                  \
    char command[PAGE_COMMAND]; /* the executable's path */                                        \
    char host[PAGE_HOST];                                                                          \
    char job[PAGE_JOB], step[PAGE_STEP];       /* of Slurm and the like; "": none */               \
    _Atomic uint64_t last_ns;                  /* the last sample's time, since start_ns */        \
    _Atomic uint64_t counters[STATS_COUNTERS]; /* without what shards and devices add: shards.h */
struct stats_head {
    STATS_PAGE_HEAD
};

/* What avoided calls of the driver's would have taken at least (saving.h). Nanoseconds. */
struct stats_saving {
    struct {
        uint64_t timed;  /* calls that were made, and timed: what prices are taken from */
        uint64_t priced; /* calls avoided for which there is a price */
        uint64_t ns[STATS_MEMORIES]; /* what the priced calls would have taken */
    } of[STATS_CALLS];
};

/* Invariant: module 0 is the unknown one, site 0 the sum of all sites beyond the table; the counts
 * include them. A site below site_count with depth 0 is being written, and a device without
 * capacity has not been used. Only a page that is touched takes memory: an unused part of the
 * tables costs nothing. */
struct stats_page {
    STATS_PAGE_HEAD
    char options[PAGE_OPTIONS];   /* NAME=VALUE NAME=VALUE ..., as the environment has them */
    char tools[PAGE_TOOLS];       /* other tools in the process, separated by ", " */
    char shortage[PAGE_SHORTAGE]; /* the last report of an allocation that failed, "" if none did */
    _Atomic uint64_t routes[STATS_ROUTES];
    _Atomic uint64_t waits[WAIT_REASONS];
    struct stats_cost costs[STATS_CALLS][STATS_MEMORIES][STATS_SIZES];
    /* of several runs, added up; for one run it follows from the rest */
    struct stats_saving saving;
    _Atomic uint32_t module_count, site_count, tag_count, bypass_count, payer_count;
    struct {
        char name[56];
        _Atomic uint64_t count;
    } payers[PAGE_PAYERS]; /* the last: all that found no place */
    struct {
        char module[PAGE_MODULE_NAME];
        char name[64];
    } bypasses[PAGE_BYPASSES];
    struct stats_module modules[PAGE_MODULES];
    char tags[PAGE_TAGS][PAGE_TAG];
    struct stats_device devices[PAGE_DEVICES]; /* by ordinal; the last: all from there on */
    char trace[PAGE_TRACE]; /* the file of POOLCUDA_TRACE, absolute; "" without one */
    char file[PAGE_FILE];   /* the file of POOLCUDA_STATS_FILE, absolute; "" without one */
    struct command_line command_line;
    _Alignas(128) struct stats_site sites[PAGE_SITES];
};

/* A part of a page that is used, the rest being zeros: to read them would make memory of them. */
struct page_part {
    size_t offset, size;
};
enum { PAGE_PARTS = 7 + PAGE_DEVICES };
/* Finds the parts, which lie inside even of a damaged page; returns how many. */
size_t stats_page_parts(const struct stats_page *page, struct page_part parts[PAGE_PARTS]);

/* Whether two heads are of the same run of a program. */
bool stats_page_is_of(const struct stats_head *head, const struct stats_head *other);

/* What is wrong with a page, in a few words; NULL: nothing, and a report of it stays inside. */
const char *stats_page_fault(const struct stats_page *page);

/* Reads the page of a running or killed program, of which `path` is the file of
 * POOLCUDA_STATS_FILE, and checks all of it: the file may be cut off or hostile. As long as the
 * page itself is there, it is read in the file's place. Returns NULL with one line in error. Free
 * with stats_page_destroy. */
struct stats_page *stats_page_read(const char *path, char *error, size_t error_size);
void stats_page_destroy(struct stats_page *page);

/* An empty page for stats from elsewhere; NULL without memory. Free with stats_page_destroy. */
struct stats_page *stats_page_new(void);

/* The rest of `all`; none, where `part` was read while it grew. */
static inline uint64_t stats_rest(uint64_t all, uint64_t part) {
    return all > part ? all - part : 0;
}

/* Their sum, or the greatest number that is read again from JSON. */
static inline uint64_t stats_sum(uint64_t one, uint64_t other) {
    uint64_t room = stats_rest(INT64_MAX, one);
    return other < room ? one + other : INT64_MAX;
}

#endif
