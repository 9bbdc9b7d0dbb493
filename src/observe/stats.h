/* The stats of one process: counters, interception routes, sites.
 *
 * They live in one page-aligned area, the *stats page*: memory that other processes of this user
 * can join (shared_page.h), else private. Updating is a relaxed atomic store or add; nothing here
 * takes a lock, allocates on the heap or calls CUDA. Files are touched by stats_open and
 * stats_finish, and with POOLCUDA_STATS_FILE by stats_now (page_file.h). What the page says is
 * never relied on: others may write it. Before stats_open updates go to a small static page, so
 * callers need no null checks. */
#ifndef POOLCUDA_OBSERVE_STATS_H
#define POOLCUDA_OBSERVE_STATS_H

#include "call_site.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stats_counter {
#define COUNTER(field, help) STATS_##field,
#define GAUGE(field, help)   STATS_##field,
#include "observe/counters.def"
    STATS_COUNTERS
};

/* Why a free waited for the device itself. */
enum wait_reason {
#define WAIT_REASON(name, text) WAIT_REASON_##name,
#include "observe/wait_reasons.def"
#undef WAIT_REASON
    WAIT_REASONS
};

enum stats_route {
#define ROUTE(name, key, text) STATS_ROUTE_##name,
#include "observe/routes.def"
#undef ROUTE
    STATS_ROUTES
};

/* Calls of the driver's whose time is measured, and the memory that they are about, in the order of
 * the pool's own (enum pool_memory). STATS_MIXED: a site that allocates several kinds. */
enum stats_call { STATS_CALL_ALLOC, STATS_CALL_FREE, STATS_CALLS };
enum stats_memory {
    STATS_DEVICE,
    STATS_HOST,
    STATS_MANAGED,
    STATS_MEMORIES,
    STATS_MIXED = STATS_MEMORIES
};

/* The stats of a site; gauges in bytes and blocks. Written by one thread at a time (pool/cache.h),
 * read by anyone. They count what a hit leaves as it is, instead of what follows from it:
 * allocations are misses + hits, and what is held, but not live, is idle. Two cache lines, which
 * processors fetch in pairs: sites of different threads are not to share any. */
struct stats_site {
    _Atomic uint64_t misses, hits;
    _Atomic uint64_t live_blocks, live_bytes, peak_live_bytes;
    _Atomic uint64_t held_blocks, held_bytes;
    _Atomic uint64_t allocated_bytes;     /* of all allocations, as requested */
    _Atomic uint32_t depth;               /* 0: slot unused */
    uint32_t tag;                         /* 1 + index into the page's tags; 0: a place in code */
    uint32_t module[CALL_SITE_MAX_DEPTH]; /* index into the page's modules */
    uint64_t
        offset[CALL_SITE_MAX_DEPTH]; /* within the module; an address if the module is unknown */
    uint32_t memory;                 /* 1 + enum stats_memory of what it allocates; 0: not known */
    _Atomic uint32_t least; /* stats_site_serves: its least, in STATS_LEAST_UNIT; 0: none yet */
};
_Static_assert(sizeof(struct stats_site) == 128, "a pair of cache lines");

/* One point of a device's history: how it was at that moment of the time around it when most was
 * held. allocations and hits: of the device so far. Bytes; held is their sum. */
struct stats_sample {
    _Atomic uint64_t time_ns; /* since the page's start_ns */
    _Atomic uint64_t in_use, idle, waste;
    _Atomic uint64_t allocations, hits;
};

/* One block in a map of a device's memory. */
struct stats_extent {
    _Atomic uint64_t address, bytes;
    _Atomic uint32_t idle; /* 0: live, 1: idle */
    _Atomic uint32_t site; /* index into the page's sites */
};

/* What the timed calls of one kind and size took, in nanoseconds; and the smallest
 * block that they were about, in bytes. */
struct stats_cost {
    _Atomic uint64_t calls, ns, least_ns, least_bytes;
};
enum { STATS_SIZES = 40 }; /* of blocks from 2^i bytes to twice that; the last: all from there on */

enum stats_sum {
#define SHARD_SUM(sum, what) SUM_##sum,
#include "observe/counters.def"
    STATS_SHARD_SUMS
};
enum {
    STATS_SHARD_LINES = 128, /* bytes of a pair of cache lines: no two shards share one */
    STATS_SHARD_UNUSED = (STATS_SHARD_LINES - (8 * STATS_SHARD_SUMS + 4) % STATS_SHARD_LINES) / 4
};

/* What one thread's cache has done by itself (pool/cache.h), as the difference to what the counters
 * and its device's stats say: they are right only with all shards added. So a hit writes to no line
 * of memory that another thread writes to, and readers still see all of it at once. */
struct stats_shard {
    _Atomic uint64_t sums[STATS_SHARD_SUMS];
    _Atomic uint32_t device; /* 1 + index into the page's devices; 0: unused */
    uint32_t unused[STATS_SHARD_UNUSED];
};
_Static_assert(sizeof(struct stats_shard) % STATS_SHARD_LINES == 0, "pairs of cache lines");

/* The sums of several shards, in unsigned arithmetic that may wrap. */
struct stats_sums {
    uint64_t of[STATS_SHARD_SUMS];
};

enum {
    STATS_SHARDS = 128,
    STATS_SAMPLES = 512,
    STATS_EXTENTS = 1024,
    STATS_UUID = 16,
};

/* A device's figures, or the sums of several devices'. */
struct stats_figures {
#define DEVICE_FIGURE(name, sums, help) uint64_t name;
#include "observe/counters.def"
};

/* One device's stats and history. Bytes. Written under the pool's lock, read by anyone.
 * Invariant: the samples' times grow; interval_ns is the time that one stands for. */
struct stats_device {
    _Atomic uint64_t capacity; /* cuDeviceTotalMem; 0: not used yet */
    uint8_t uuid[STATS_UUID];  /* cuDeviceGetUuid: the same in every process. Zeros: not known */
#define DEVICE_FIGURE(name, sums, help) _Atomic uint64_t name; /* without what shards add */
#include "observe/counters.def"
    _Atomic uint64_t peak_live, peak_held;
    _Atomic uint64_t interval_ns;
    _Atomic uint32_t sample_count, extent_count;
    _Atomic uint64_t map_time_ns;  /* when the map was made; 0: never */
    _Atomic uint64_t map_left_out; /* blocks too small to be among its extents */
    struct stats_sample samples[STATS_SAMPLES];
    struct stats_extent map[STATS_EXTENTS]; /* the largest blocks, by address */
};

/* Reads a number of a page that others may write meanwhile. */
static inline uint64_t stats_read(const _Atomic uint64_t *figure) {
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)figure, memory_order_relaxed);
}

static inline void stats_write(_Atomic uint64_t *figure, uint64_t value) {
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

/* Adds to a number that one thread at a time writes, while others, of other processes mostly, read
 * it: these need whole words, not order. The compiler adds in place only to what is not atomic. */
static inline void stats_grow(_Atomic uint64_t *figure, uint64_t more) {
#ifdef __SANITIZE_THREAD__
    atomic_store_explicit(figure, stats_read(figure) + more, memory_order_relaxed);
#else
    *(uint64_t *)figure += more;
#endif
}

/* *peak becomes *figure if that is greater, as signed numbers: sums of differences are. The same
 * thread writes both. */
static inline void stats_raise(_Atomic uint64_t *peak, const _Atomic uint64_t *figure) {
    if ((int64_t)stats_read(figure) > (int64_t)stats_read(peak))
        atomic_store_explicit(peak, stats_read(figure), memory_order_relaxed);
}

static inline uint64_t stats_site_allocations(const struct stats_site *site) {
    return stats_read(&site->misses) + stats_read(&site->hits);
}

/* The rest of `all`; none, where `part` was read while it grew. */
static inline uint64_t stats_rest(uint64_t all, uint64_t part) {
    return all > part ? all - part : 0;
}

static inline uint64_t stats_site_idle_blocks(const struct stats_site *site) {
    return stats_rest(stats_read(&site->held_blocks), stats_read(&site->live_blocks));
}

static inline uint64_t stats_site_idle_bytes(const struct stats_site *site) {
    return stats_rest(stats_read(&site->held_bytes), stats_read(&site->live_bytes));
}

extern _Atomic uint64_t *stats_counters; /* STATS_COUNTERS entries */

static inline void stats_add(enum stats_counter counter, uint64_t n) {
    atomic_fetch_add_explicit(&stats_counters[counter], n, memory_order_relaxed);
}

/* For gauges kept under the pool's lock: a plain store. */
static inline void stats_set(enum stats_counter counter, uint64_t value) {
    atomic_store_explicit(&stats_counters[counter], value, memory_order_relaxed);
}

/* The counter with what the shards add; of several, in values[i], with one walk of the shards. */
uint64_t stats_get(enum stats_counter counter);
void stats_get_several(const enum stats_counter *counters, size_t count, uint64_t *values);

/* A shard for a cache on the device of that record, zeroed. NULL: all are in use. stats_shard_end
 * takes it back: the counters and the device have what it adds from then on. LOCK_POOL held. */
struct stats_shard *stats_shard_begin(const struct stats_device *device);
/* LOCK_POOL held. */
void stats_shard_end(struct stats_shard *shard, struct stats_device *device);

void stats_route(enum stats_route route);
void stats_wait(enum wait_reason reason);

/* How long calls of the driver take: timed around each of a thread's first ones, then around one of
 * many, so that a program whose calls are quick does not pay for the clock. Misses that a thread's
 * cache serves by itself (cache_miss.c) are never timed: one of many goes the long way, and is. */
/* What one thread has: how many calls were timed, and how many go untimed before the next one. */
struct call_timer {
    int timed, untimed;
};
extern _Thread_local struct call_timer call_timers[STATS_CALLS]
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

enum { CALL_TIMER_FIRST = 16 }; /* calls are timed, whoever makes them */

/* Whether the next call goes untimed, which is counted. If not, start is to be called before it,
 * and stop with what that has returned after it, if it has succeeded. bytes: of the block. */
static inline bool call_timer_rests(enum stats_call call) {
    return __builtin_expect(--call_timers[call].untimed >= 0, 1);
}
uint64_t call_timer_start(enum stats_call call);
void call_timer_stop(enum stats_call call, enum stats_memory memory, size_t bytes, uint64_t began);

/* Counts a driver call before which a wait that was owed has been made. LOCK_POOL held. */
void stats_payer(const char *call);

/* A new site's record in the page; beyond the table's capacity sites share one "(others)" record.
 * NULL: there is no page. To be called once per site. LOCK_POOL held. */
struct stats_site *stats_site_new(const struct call_site *site);

/* Notes that the site allocates such memory. LOCK_POOL held. */
void stats_site_allocates(struct stats_site *site, enum stats_memory memory);

/* The smallest size in bytes that stats_site_serves was called with; 0: none yet. */
enum { STATS_LEAST_UNIT = 512 };
static inline uint64_t stats_site_least(const struct stats_site *site) {
    _Atomic uint32_t *least = (_Atomic uint32_t *)(uintptr_t)&site->least;
    return (uint64_t)atomic_load_explicit(least, memory_order_relaxed) * STATS_LEAST_UNIT;
}

/* A request of the site's that the driver would have rounded to `size` is served from idle memory,
 * or its block freed. Threads' caches need not call it for blocks of just the size that is asked:
 * the first of these goes the long way. To be called by any thread. */
static inline void stats_site_serves(struct stats_site *site, uint64_t size) {
    uint64_t units = size / STATS_LEAST_UNIT;
    uint32_t wanted = units ? units < UINT32_MAX ? (uint32_t)units : UINT32_MAX : 1;
    uint32_t least = atomic_load_explicit(&site->least, memory_order_relaxed);
    while ((!least || wanted < least) &&
           !atomic_compare_exchange_weak_explicit(&site->least, &least, wanted,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

/* The record of a device by its ordinal. Never NULL, and zeroed at first. To be called once per
 * device. LOCK_POOL held. */
struct stats_device *stats_device(int ordinal, uint64_t capacity, const uint8_t uuid[STATS_UUID]);

/* Nanoseconds since the page was made. Now and then, with POOLCUDA_STATS_FILE, the file gets the
 * page. */
uint64_t stats_now(void);

/* The index of a site's record, for a map; 0: the record of all that have none of their own. */
uint32_t stats_site_index(const struct stats_site *site);

/* Starts recording. path_pattern: the file of POOLCUDA_STATS_FILE (page_file.h), about which `say`
 * may get a line. share: other processes of this user find the page (share_folder.h), where that is
 * possible. */
void stats_open(const char *path_pattern, bool share, void (*say)(const char *line));

/* Notes an option "NAME=VALUE" that was set while the program runs, for the report. */
void stats_option(const char *setting);

/* Notes the file that allocations are recorded in, for the report. */
void stats_trace(const char *path);

/* Notes another tool that is in this process, for the report. */
void stats_tool(const char *name);

/* Keeps the text, shortened if need be, for the end of the report. With POOLCUDA_STATS_FILE the
 * file gets the page, at most ten times a second because of this. LOCK_POOL not held. */
void stats_shortage(const char *text);

/* Notes a module whose calls of `name` go past us (opened with RTLD_DEEPBIND, say), for the
 * report. */
void stats_bypass(const char *module, const char *name);

/* What a report is written as: nothing, for people, or for programs (docs/reports.md); for programs
 * to a file, and to nothing else where that cannot be had. */
enum stats_form { STATS_NONE, STATS_TEXT, STATS_JSON, STATS_FILE };

/* To be called at exit: writes the report to the file that stats_open made (in the page's place; as
 * JSON unless text is asked for), or to what it opened that is no file. Without one it goes to
 * standard error: in the form that is asked for, or as text in the place of a file that could not
 * be had. */
void stats_finish(enum stats_form form);

/* To be called before the program shuts itself in by seccomp: takes the shared page out of the
 * folder where others find it, and the file of POOLCUDA_STATS_FILE gets the page for the last time.
 * From here on counting needs no file. A report that stats_finish could not write any more
 * (output_file.h) is written now. */
void stats_shut_in(enum stats_form form);

/* In a forked child: lets go of the parent's page and file. Counting starts from zero, and nothing
 * is reported unless stats_open is called again. */
void stats_forget_after_fork(void);

#endif
