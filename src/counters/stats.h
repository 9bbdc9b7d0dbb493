/* Counting what the process does: counters, interception routes, sites, devices.
 *
 * They live in one page-aligned area, the *stats page*: memory that other processes of this user
 * can join (shared_page.h), else private. Updating is a relaxed atomic store or add; nothing here
 * takes a lock, allocates on the heap or calls CUDA. Files are touched by stats_open and
 * stats_finish, and with POOLCUDA_STATS_FILE by stats_now (page_file.h). What the page says is
 * never relied on: others may write it. Before stats_open updates go to a small static page, so
 * callers need no null checks. */
#ifndef POOLCUDA_COUNTERS_STATS_H
#define POOLCUDA_COUNTERS_STATS_H

#include "counters/figures.h"

/* Reads a number of a page that others may write meanwhile. */
uint64_t stats_read(const _Atomic uint64_t *figure);
void stats_write(_Atomic uint64_t *figure, uint64_t value);

/* Adds to a number that one thread at a time writes, while others, of other processes mostly, read
 * it: these need whole words, not order. The compiler adds in place only to what is not atomic. */
void stats_grow(_Atomic uint64_t *figure, uint64_t more);

/* *peak becomes *figure if that is greater, as signed numbers: sums of differences are. The same
 * thread writes both. */
void stats_raise(_Atomic uint64_t *peak, const _Atomic uint64_t *figure);

uint64_t stats_site_allocations(const struct stats_site *site);

extern _Atomic uint64_t *stats_counters; /* STATS_COUNTERS entries */
void stats_add(enum stats_counter counter, uint64_t n);

/* For gauges kept under the pool's lock: a plain store. */
void stats_set(enum stats_counter counter, uint64_t value);

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
 * cache serves by itself (cache_miss) are never timed: one of many goes the long way, and is.
 * What one thread has: how many calls were timed, and how many go untimed before the next one. */
struct call_timer {
    int timed, untimed;
};
extern _Thread_local struct call_timer call_timers[STATS_CALLS]
    __attribute__((visibility("hidden"), tls_model("initial-exec")));

enum { CALL_TIMER_FIRST = 16 }; /* calls are timed, whoever makes them */

/* Whether the next call goes untimed, which is counted. If not, start is to be called before it,
 * and stop with what that has returned after it, if it has succeeded. bytes: of the block. */
bool call_timer_rests(enum stats_call call);
uint64_t call_timer_start(enum stats_call call);
void call_timer_stop(enum stats_call call, enum stats_memory memory, size_t bytes, uint64_t began);

/* Counts a driver call before which a wait that was owed has been made. LOCK_POOL held. */
void stats_payer(const char *call);

/* A new site's record in the page; beyond the table's capacity sites share one "(others)" record.
 * NULL: there is no page. To be called once per site. LOCK_POOL held. */
struct stats_site *stats_site_new(const struct call_site *site);

/* Notes that the site allocates such memory. LOCK_POOL held. */
void stats_site_allocates(struct stats_site *site, enum stats_memory memory);

/* Adds to the site's what was counted apart from it, and sets that to zero. LOCK_POOL held. */
void stats_site_merge(struct stats_site *site, struct stats_site *apart);

/* The smallest size in bytes that stats_site_serves was called with; 0: none yet. */
enum { STATS_LEAST_UNIT = 512 };
uint64_t stats_site_least(const struct stats_site *site);

/* A request of the site's that the driver would have rounded to `size` is served from idle memory,
 * or its block freed. Threads' caches need not call it for blocks of just the size that is asked:
 * the first of these goes the long way. To be called by any thread. */
void stats_site_serves(struct stats_site *site, uint64_t size);

/* The record of a device by its ordinal. Never NULL, and zeroed at first. To be called once per
 * device. LOCK_POOL held. */
struct stats_device *stats_device(int ordinal, uint64_t capacity, const uint8_t uuid[STATS_UUID]);

/* Nanoseconds since the page was made. Now and then, with POOLCUDA_STATS_FILE, the file gets the
 * page. */
uint64_t stats_now(void);

/* The index of a site's record, for a map; 0: the record of all that have none of their own. */
uint32_t stats_site_index(const struct stats_site *site);

#endif
