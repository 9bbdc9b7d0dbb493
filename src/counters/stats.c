#include "counters/stats.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/placed.h"
#include "counters/own_page_parts.h"
#include "counters/page_file.h"
#include "site_tag.h"

#include <string.h>

uint64_t stats_read(const _Atomic uint64_t *figure) {
    return atomic_load_explicit((_Atomic uint64_t *)(uintptr_t)figure, memory_order_relaxed);
}

void stats_write(_Atomic uint64_t *figure, uint64_t value) {
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

void stats_grow(_Atomic uint64_t *figure, uint64_t more) {
#ifdef __SANITIZE_THREAD__
    atomic_store_explicit(figure, stats_read(figure) + more, memory_order_relaxed);
#else
    *(uint64_t *)figure += more;
#endif
}

PLACED void stats_raise(_Atomic uint64_t *peak, const _Atomic uint64_t *figure) {
    if ((int64_t)stats_read(figure) > (int64_t)stats_read(peak))
        atomic_store_explicit(peak, stats_read(figure), memory_order_relaxed);
}

uint64_t stats_site_allocations(const struct stats_site *site) {
    return stats_read(&site->misses) + stats_read(&site->hits);
}

void stats_add(enum stats_counter counter, uint64_t n) {
    atomic_fetch_add_explicit(&stats_counters[counter], n, memory_order_relaxed);
}

void stats_set(enum stats_counter counter, uint64_t value) {
    atomic_store_explicit(&stats_counters[counter], value, memory_order_relaxed);
}

enum {
    ALL_TIMED = 64, /* of a thread's first calls, so that a short run's are */
    ONE_OF = 251    /* of later ones: a prime, so that no program's loop falls into step with it */
};

_Thread_local struct call_timer call_timers[STATS_CALLS];

bool call_timer_rests(enum stats_call call) {
    return __builtin_expect(--call_timers[call].untimed >= 0, 1);
}

uint64_t call_timer_start(enum stats_call call) {
    struct call_timer *timer = &call_timers[call];
    bool first = timer->timed < ALL_TIMED;
    timer->timed += first;
    timer->untimed = first ? 0 : ONE_OF - 1;
    return clock_ns(CLOCK_MONOTONIC);
}

/* *least becomes the value if that is less; 0: there was none yet. */
static void note_least(_Atomic uint64_t *least, uint64_t value) {
    uint64_t now = stats_read(least);
    while ((!now || value < now) && !atomic_compare_exchange_weak(least, &now, value))
        ;
}

void call_timer_stop(enum stats_call call, enum stats_memory memory, size_t bytes, uint64_t began) {
    if (!own_page || !bytes)
        return;
    int log = 63 - __builtin_clzll(bytes);
    struct stats_cost *cost =
        &own_page->costs[call][memory][log < STATS_SIZES ? log : STATS_SIZES - 1];
    uint64_t ns = clock_ns(CLOCK_MONOTONIC) - began;
    ns = ns ? ns : 1; /* a least of 0 says that there was no call */
    atomic_fetch_add_explicit(&cost->calls, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&cost->ns, ns, memory_order_relaxed);
    note_least(&cost->least_ns, ns);
    note_least(&cost->least_bytes, bytes);
}

struct stats_site *stats_site_new(const struct call_site *site) {
    lock_check_held(LOCK_POOL);
    if (!own_page)
        return NULL;
    const char *name = site_tag_name(site);
    uint32_t tag = name ? own_page_tag(name) : 0;
    struct stats_site *slot = &own_page->sites[own_use.sites];
    if (own_use.sites == PAGE_SITES || (name && !tag))
        return &own_page->sites[0];
    own_page->site_count = ++own_use.sites;
    slot->tag = tag;
    for (uintptr_t i = 0; i < site->depth && !name; i++) {
        slot->offset[i] = site->frames[i];
        slot->module[i] = own_page_module(site->frames[i], &slot->offset[i]);
    }
    atomic_store_explicit(&slot->depth, (uint32_t)site->depth, memory_order_release);
    return slot;
}

void stats_site_allocates(struct stats_site *site, enum stats_memory memory) {
    lock_check_held(LOCK_POOL);
    uint32_t named = 1 + (uint32_t)memory;
    site->memory = !site->memory || site->memory == named ? named : 1 + (uint32_t)STATS_MIXED;
}

static void merge(_Atomic uint64_t *of_site, _Atomic uint64_t *apart) {
    stats_grow(of_site, stats_read(apart));
    *apart = 0;
}

void stats_site_merge(struct stats_site *site, struct stats_site *apart) {
    lock_check_held(LOCK_POOL);
    uint64_t peak = stats_read(&site->live_bytes) + stats_read(&apart->peak_live_bytes);
    merge(&site->hits, &apart->hits);
    merge(&site->allocated_bytes, &apart->allocated_bytes);
    merge(&site->live_blocks, &apart->live_blocks);
    merge(&site->live_bytes, &apart->live_bytes);
    merge(&site->held_blocks, &apart->held_blocks);
    merge(&site->held_bytes, &apart->held_bytes);
    apart->peak_live_bytes = 0;
    if ((int64_t)(peak - stats_read(&site->peak_live_bytes)) > 0)
        site->peak_live_bytes = peak;
}

uint64_t stats_site_least(const struct stats_site *site) {
    _Atomic uint32_t *least = (_Atomic uint32_t *)(uintptr_t)&site->least;
    return (uint64_t)atomic_load_explicit(least, memory_order_relaxed) * STATS_LEAST_UNIT;
}

void stats_site_serves(struct stats_site *site, uint64_t size) {
    uint64_t units = size / STATS_LEAST_UNIT;
    uint32_t wanted = units ? units < UINT32_MAX ? (uint32_t)units : UINT32_MAX : 1;
    uint32_t least = atomic_load_explicit(&site->least, memory_order_relaxed);
    while ((!least || wanted < least) &&
           !atomic_compare_exchange_weak_explicit(&site->least, &least, wanted,
                                                  memory_order_relaxed, memory_order_relaxed))
        continue;
}

struct stats_device *stats_device(int ordinal, uint64_t capacity, const uint8_t uuid[STATS_UUID]) {
    lock_check_held(LOCK_POOL);
    if (!own_page)
        return &own_early_device;
    int last = PAGE_DEVICES - 1;
    struct stats_device *device =
        &own_page->devices[ordinal < 0 || ordinal > last ? last : ordinal];
    own_use.devices |= 1u << (device - own_page->devices);
    own_page->devices_used = own_use.devices;
    memcpy(device->uuid, uuid, sizeof device->uuid);
    device->capacity = capacity;
    return device;
}

struct stats_shard *stats_shard_begin(const struct stats_device *device) {
    lock_check_held(LOCK_POOL);
    int i = 0;
    while (i < STATS_SHARDS && own_use.shards[i])
        i++;
    if (i == STATS_SHARDS)
        return NULL;
    own_use.shards[i] = true;
    memset(&own_shards[i], 0, sizeof own_shards[i]);
    own_shards[i].device =
        1 + (own_page && device >= own_page->devices && device < own_page->devices + PAGE_DEVICES
                 ? (uint32_t)(device - own_page->devices)
                 : 0);
    return &own_shards[i];
}

uint32_t stats_site_index(const struct stats_site *site) {
    return own_page && site >= own_page->sites && site < own_page->sites + PAGE_SITES
               ? (uint32_t)(site - own_page->sites)
               : 0;
}

uint64_t stats_now(void) {
    if (!own_page)
        return 0;
    uint64_t now = clock_ns(CLOCK_MONOTONIC) - own_use.start_ns;
    atomic_store_explicit(&own_page->last_ns, now, memory_order_relaxed);
    if (__builtin_expect(now >= atomic_load_explicit(&page_file_due, memory_order_relaxed), 0))
        page_file_write_due(own_page, now);
    return now;
}
