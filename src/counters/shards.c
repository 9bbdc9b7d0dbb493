#include "counters/shards.h"

#include "base/lock.h"
#include "counters/own_page_parts.h"
#include "counters/stats.h"

#include <string.h>

void shards_add(struct stats_sums *sum, const struct stats_shard *shard) {
    for (int i = 0; i < STATS_SHARD_SUMS; i++)
        sum->of[i] += stats_read(&shard->sums[i]);
}

struct stats_sums shards_sum(const struct stats_shard *shards, int device) {
    struct stats_sums sum = {0};
    for (int i = 0; i < STATS_SHARDS; i++) {
        uint32_t of = atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)&shards[i].device,
                                           memory_order_relaxed);
        if (of && (device == SHARDS_ALL || of == 1 + (uint32_t)device))
            shards_add(&sum, &shards[i]);
    }
    return sum;
}

/* What was read while it changed may not match: nothing is below zero. */
static uint64_t at_least_none(uint64_t value) {
    return value >> 63 ? 0 : value;
}

struct stats_figures shards_device(const struct stats_shard *shards,
                                   const struct stats_device *devices, int device) {
    const struct stats_sums sum = shards_sum(shards, device);
    const uint64_t *sums = sum.of;
    return (struct stats_figures){
#define DEVICE_FIGURE(name, sums, help)                                                            \
    .name = at_least_none(stats_read(&devices[device].name) + (sums)),
#include "counters/counters.def"
    };
}

struct stats_figures shards_devices(const struct stats_shard *shards,
                                    const struct stats_device *devices, uint32_t used) {
    struct stats_figures all = {0};
    for (int i = 0; i < PAGE_DEVICES; i++) {
        if (!(used >> i & 1))
            continue;
        const struct stats_figures figures = shards_device(shards, devices, i);
#define DEVICE_FIGURE(name, sums, help) all.name += figures.name;
#include "counters/counters.def"
    }
    return all;
}

uint64_t shards_count(const struct stats_sums *sum, const struct stats_figures *all,
                      enum stats_counter counter) {
    const uint64_t *sums = sum->of;
#define SUMMED_COUNTER(field, sums, help)                                                          \
    if (counter == STATS_##field)                                                                  \
        return sums;
#define DEVICE_GAUGE(field, figure, help) SUMMED_COUNTER(field, figure, help)
#include "counters/counters.def"
    return 0;
}

static void add(_Atomic uint64_t *figure, uint64_t more) {
    *figure = at_least_none(stats_read(figure) + more);
}

/* Raises a peak to the value: a shard grows without changing the peaks. */
static void raise(_Atomic uint64_t *peak, uint64_t value) {
    if (value > stats_read(peak))
        *peak = value;
}

void shards_fold_head(struct stats_head *head, const struct stats_device *devices) {
    const struct stats_sums sum = shards_sum(head->shards, SHARDS_ALL);
    const struct stats_figures all = shards_devices(head->shards, devices, head->devices_used);
    _Atomic uint64_t *counters = head->counters;
    for (int i = 0; i < STATS_COUNTERS; i++)
        add(&counters[i], shards_count(&sum, &all, (enum stats_counter)i));
    raise(&counters[STATS_peak_held_bytes], all.held);
    raise(&counters[STATS_peak_live_bytes], all.live);
}

void shards_fold(struct stats_page *page) {
    shards_fold_head((struct stats_head *)page, page->devices);
    for (int i = 0; i < PAGE_DEVICES; i++) {
        struct stats_device *device = &page->devices[i];
        if (!(page->devices_used >> i & 1))
            continue;
        const struct stats_figures figures = shards_device(page->shards, page->devices, i);
#define DEVICE_FIGURE(name, sums, help) device->name = figures.name;
#include "counters/counters.def"
        raise(&device->peak_live, figures.live);
        raise(&device->peak_held, figures.held);
    }
    for (uint32_t i = 0; i < page->site_count && i < PAGE_SITES; i++) {
        add(&page->sites[i].live_blocks, 0);
        add(&page->sites[i].live_bytes, 0);
    }
    memset(page->shards, 0, sizeof page->shards);
}

void stats_get_several(const enum stats_counter *counters, size_t count, uint64_t *values) {
    struct stats_sums sum = shards_sum(own_shards, SHARDS_ALL);
    struct stats_figures all = own_page
                                   ? shards_devices(own_shards, own_page->devices, own_use.devices)
                                   : shards_devices(own_shards, &own_early_device, 1);
    for (size_t i = 0; i < count; i++)
        values[i] =
            stats_read(&stats_counters[counters[i]]) + shards_count(&sum, &all, counters[i]);
}

uint64_t stats_get(enum stats_counter counter) {
    uint64_t value;
    stats_get_several(&counter, 1, &value);
    return value;
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
