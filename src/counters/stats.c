#include "counters/stats.h"

#include "base/clock.h"
#include "base/lock.h"
#include "counters/own_page_parts.h"
#include "counters/page_file.h"
#include "counters/shards.h"
#include "site_tag.h"

#include <string.h>

/* *least becomes the value if that is less; 0: there was none yet. */
static void note_least(_Atomic uint64_t *least, uint64_t value) {
    uint64_t now = stats_read(least);
    while ((!now || value < now) && !atomic_compare_exchange_weak(least, &now, value))
        ;
}

enum {
    ALL_TIMED = 64, /* of a thread's first calls, so that a short run's are */
    ONE_OF = 251    /* of later ones: a prime, so that no program's loop falls into step with it */
};

_Thread_local struct call_timer call_timers[STATS_CALLS];

uint64_t call_timer_start(enum stats_call call) {
    struct call_timer *timer = &call_timers[call];
    bool first = timer->timed < ALL_TIMED;
    timer->timed += first;
    timer->untimed = first ? 0 : ONE_OF - 1;
    return clock_ns(CLOCK_MONOTONIC);
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

void stats_shard_end(struct stats_shard *shard, struct stats_device *device) {
    lock_check_held(LOCK_POOL);
    struct stats_sums of_shard = {0};
    const uint64_t *sums = of_shard.of;
    shards_add(&of_shard, shard);
    shard->device = 0;
#define DEVICE_FIGURE(name, sums, help)   stats_grow(&device->name, sums);
#define SUMMED_COUNTER(field, sums, help) stats_add(STATS_##field, sums);
#include "counters/counters.def"
    own_use.shards[shard - own_shards] = false;
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
