#include "observe/shards.h"

#include <string.h>

void shards_add(struct stats_sums *sum, const struct stats_shard *shard) {
#define SHARD_SUM(sum_, what) sum->sum_ += stats_read(&shard->sum_);
#include "observe/counters.def"
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

/* What the sum of all shards adds to a counter. */
static uint64_t of_shards(const struct stats_sums *sum, enum stats_counter counter) {
#define SUMMED_COUNTER(field, sums, help)                                                          \
    if (counter == STATS_##field)                                                                  \
        return sums;
#define DEVICE_GAUGE(field, figure, sums, help) SUMMED_COUNTER(field, sums, help)
#include "observe/counters.def"
    return 0;
}

/* What a device adds to it. */
static uint64_t of_device(const struct stats_device *device, enum stats_counter counter) {
#define DEVICE_GAUGE(field, figure, sums, help)                                                    \
    if (counter == STATS_##field)                                                                  \
        return figure;
#include "observe/counters.def"
    return 0;
}

uint64_t shards_count(const struct stats_sums *sum, const struct stats_device *devices,
                      uint32_t used, enum stats_counter counter) {
    uint64_t count = of_shards(sum, counter);
    for (int i = 0; i < PAGE_DEVICES; i++)
        if (used >> i & 1)
            count += of_device(&devices[i], counter);
    return count;
}

/* Adds to a number. What was read while it changed may not match: nothing goes below zero. */
static void add(_Atomic uint64_t *figure, uint64_t more) {
    uint64_t value = stats_read(figure) + more;
    *figure = value >> 63 ? 0 : value;
}

/* Raises a peak to the value: a shard grows without changing the peaks. */
static void raise(_Atomic uint64_t *peak, uint64_t value) {
    if (value > stats_read(peak))
        *peak = value;
}

void shards_fold_head(struct stats_head *head, const struct stats_page *page) {
    struct stats_sums sum = shards_sum(head->shards, SHARDS_ALL);
    _Atomic uint64_t *counters = head->counters;
    for (int i = 0; i < STATS_COUNTERS; i++)
        add(&counters[i],
            shards_count(&sum, page->devices, head->devices_used, (enum stats_counter)i));
    raise(&counters[STATS_peak_held_bytes], stats_read(&counters[STATS_held_bytes]));
    raise(&counters[STATS_peak_live_bytes],
          stats_read(&counters[STATS_in_use_bytes]) + stats_read(&counters[STATS_waste_bytes]));
}

void shards_fold(struct stats_page *page) {
    shards_fold_head((struct stats_head *)page, page);
    for (int i = 0; i < PAGE_DEVICES; i++) {
        struct stats_device *device = &page->devices[i];
        struct stats_sums sum = shards_sum(page->shards, i);
        if (!sum.hits && !sum.frees && !sum.fresh)
            continue;
        add(&device->in_use, stats_sums_in_use_bytes(&sum));
        add(&device->idle, stats_sums_idle_bytes(&sum));
        add(&device->waste, stats_sums_waste_bytes(&sum));
        add(&device->live_blocks, stats_sums_live_blocks(&sum));
        add(&device->idle_blocks, stats_sums_idle_blocks(&sum));
        add(&device->allocations, stats_sums_malloc_calls(&sum));
        add(&device->hits, stats_sums_malloc_hits(&sum));
        uint64_t live = stats_read(&device->in_use) + stats_read(&device->waste);
        raise(&device->peak_live, live);
        raise(&device->peak_held, live + stats_read(&device->idle));
    }
    for (uint32_t i = 0; i < page->site_count && i < PAGE_SITES; i++) {
        add(&page->sites[i].live_blocks, 0);
        add(&page->sites[i].live_bytes, 0);
    }
    memset(page->shards, 0, sizeof page->shards);
}
