/* What is counted: the counters of one process, why its frees waited, and what its sites, its
 * devices and its threads' caches have done. */
#ifndef POOLCUDA_COUNTERS_FIGURES_H
#define POOLCUDA_COUNTERS_FIGURES_H

#include "base/call_site.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stats_counter {
#define COUNTER(field, help) STATS_##field,
#define GAUGE(field, help)   STATS_##field,
#include "counters/counters.def"
    STATS_COUNTERS
};

/* Why a free waited for the device itself. */
enum wait_reason {
#define WAIT_REASON(name, text) WAIT_REASON_##name,
#include "counters/wait_reasons.def"
#undef WAIT_REASON
    WAIT_REASONS
};

enum stats_route {
#define ROUTE(name, key, text) STATS_ROUTE_##name,
#include "counters/routes.def"
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
#include "counters/counters.def"
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
#include "counters/counters.def"
};

/* One device's stats and history. Bytes. Written under the pool's lock, read by anyone.
 * Invariant: the samples' times grow; interval_ns is the time that one stands for. */
struct stats_device {
    _Atomic uint64_t capacity; /* cuDeviceTotalMem; 0: not used yet */
    uint8_t uuid[STATS_UUID];  /* cuDeviceGetUuid: the same in every process. Zeros: not known */
#define DEVICE_FIGURE(name, sums, help) _Atomic uint64_t name; /* without what shards add */
#include "counters/counters.def"
    _Atomic uint64_t peak_live, peak_held;
    _Atomic uint64_t interval_ns;
    _Atomic uint32_t sample_count, extent_count;
    _Atomic uint64_t map_time_ns;  /* when the map was made; 0: never */
    _Atomic uint64_t map_left_out; /* blocks too small to be among its extents */
    struct stats_sample samples[STATS_SAMPLES];
    struct stats_extent map[STATS_EXTENTS]; /* the largest blocks, by address */
};

#endif
