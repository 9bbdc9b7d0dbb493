#include "observe/shards.h"

#include <string.h>

struct shards_sum shards_sum(const struct stats_shard *shards, int device) {
    struct shards_sum sum = {0};
    for (int i = 0; i < STATS_SHARDS; i++) {
        uint32_t of = atomic_load_explicit((_Atomic uint32_t *)(uintptr_t)&shards[i].device,
                                           memory_order_relaxed);
        if (!of || (device != SHARDS_ALL && of != 1 + (uint32_t)device))
            continue;
        sum.hits += stats_read(&shards[i].hits);
        sum.frees += stats_read(&shards[i].frees);
        sum.fresh += stats_read(&shards[i].fresh);
        sum.held += stats_read(&shards[i].held);
        sum.in_use += stats_read(&shards[i].in_use);
        sum.live += stats_read(&shards[i].live);
    }
    return sum;
}

uint64_t shards_count(const struct shards_sum *sum, enum stats_counter counter) {
    switch (counter) {
    case STATS_malloc_calls:
        return sum->hits + sum->fresh;
    case STATS_malloc_hits:
        return sum->hits;
    case STATS_driver_allocs:
        return sum->fresh;
    case STATS_free_calls:
    case STATS_free_kept:
        return sum->frees;
    case STATS_in_use_bytes:
        return sum->in_use;
    case STATS_waste_bytes:
        return sum->live - sum->in_use;
    case STATS_idle_bytes:
        return sum->held - sum->live;
    case STATS_held_bytes:
        return sum->held;
    case STATS_live_blocks:
        return sum->hits + sum->fresh - sum->frees;
    case STATS_idle_blocks:
        return sum->frees - sum->hits;
    default:
        return 0;
    }
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

void shards_fold_counters(_Atomic uint64_t *counters, const struct stats_shard *shards) {
    struct shards_sum sum = shards_sum(shards, SHARDS_ALL);
    for (int i = 0; i < STATS_COUNTERS; i++)
        add(&counters[i], shards_count(&sum, (enum stats_counter)i));
    raise(&counters[STATS_peak_held_bytes], stats_read(&counters[STATS_held_bytes]));
    raise(&counters[STATS_peak_live_bytes],
          stats_read(&counters[STATS_in_use_bytes]) + stats_read(&counters[STATS_waste_bytes]));
}

void shards_fold(struct stats_page *page) {
    shards_fold_counters(page->counters, page->shards);
    for (int i = 0; i < PAGE_DEVICES; i++) {
        struct stats_device *device = &page->devices[i];
        struct shards_sum sum = shards_sum(page->shards, i);
        if (!sum.hits && !sum.frees && !sum.fresh)
            continue;
        add(&device->in_use, sum.in_use);
        add(&device->idle, sum.held - sum.live);
        add(&device->waste, sum.live - sum.in_use);
        add(&device->allocations, sum.hits + sum.fresh);
        add(&device->hits, sum.hits);
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
