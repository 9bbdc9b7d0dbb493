#include "pool/history.h"

#include "by_pointer.h"
#include "pool/internal.h"

#include <stdlib.h>

enum {
    FIRST_INTERVAL = 1000000, /* nanoseconds */
    ALWAYS_NOTED = 1024,      /* the first changes, so that a short program's history is whole */
    /* changes between two of the later ones, for which no clock is read each time */
    NOTE_EVERY = 64,
    MAP_MOST_BLOCKS = 1 << 16 /* beyond it a map would take longer than an allocation may */
};

static void set(_Atomic uint64_t *figure, uint64_t value) {
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

static uint64_t held(const struct stats_sample *sample) {
    return stats_read(&sample->in_use) + stats_read(&sample->idle) + stats_read(&sample->waste);
}

static void copy_memory(struct stats_sample *to, const struct stats_sample *from) {
    set(&to->time_ns, stats_read(&from->time_ns));
    set(&to->in_use, stats_read(&from->in_use));
    set(&to->idle, stats_read(&from->idle));
    set(&to->waste, stats_read(&from->waste));
}

/* Merges `later` into `sample`, which stands for the time of both from now on. */
static void merge(struct stats_sample *sample, const struct stats_sample *later) {
    if (held(later) >= held(sample))
        copy_memory(sample, later);
    set(&sample->allocations, stats_read(&later->allocations));
    set(&sample->hits, stats_read(&later->hits));
}

/* Each sample stands for twice the time from now on. Returns how many are left: none, where another
 * process has written times over them that no program lives to see. */
static uint32_t halve(struct device *device, uint32_t count) {
    struct stats_device *stats = device->stats;
    uint64_t interval = device->interval *= 2;
    uint32_t kept = 0;
    if (interval > UINT64_MAX / 4) {
        device->interval = FIRST_INTERVAL;
        return 0;
    }
    for (uint32_t i = 1; i < count; i++) {
        struct stats_sample *last = &stats->samples[kept], *next = &stats->samples[i];
        if (stats_read(&next->time_ns) / interval == stats_read(&last->time_ns) / interval) {
            merge(last, next);
        } else if (++kept != i) {
            copy_memory(&stats->samples[kept], next);
            set(&stats->samples[kept].allocations, stats_read(&next->allocations));
            set(&stats->samples[kept].hits, stats_read(&next->hits));
        }
    }
    set(&stats->interval_ns, interval);
    return kept + 1;
}

/* Whether the last sample stands for this moment too. */
static bool continues(const struct device *device, uint32_t count, const struct stats_sample *now) {
    return count && stats_read(&device->stats->samples[count - 1].time_ns) / device->interval ==
                        stats_read(&now->time_ns) / device->interval;
}

static void add_sample(struct device *device) {
    struct stats_device *stats = device->stats;
    struct stats_sample now = {.time_ns = stats_now(),
                               .in_use = device->in_use,
                               .idle = device->idle,
                               .waste = device->live - device->in_use,
                               .allocations = device->allocations,
                               .hits = device->hits};
    uint32_t count = device->samples;
    if (!count) {
        device->interval = FIRST_INTERVAL;
        set(&stats->interval_ns, device->interval);
    }
    while (count == STATS_SAMPLES && !continues(device, count, &now))
        count = halve(device, count);
    if (continues(device, count, &now)) {
        merge(&stats->samples[count - 1], &now);
        device->samples = count;
        atomic_store_explicit(&stats->sample_count, count, memory_order_release);
        return;
    }
    struct stats_sample *sample = &stats->samples[count];
    copy_memory(sample, &now);
    set(&sample->allocations, stats_read(&now.allocations));
    set(&sample->hits, stats_read(&now.hits));
    device->samples = count + 1;
    atomic_store_explicit(&stats->sample_count, device->samples, memory_order_release);
}

void history_note(struct device *device) {
    lock_check_held(LOCK_POOL);
    struct stats_device *stats = device->stats;
    device->changes++;
    if (!stats)
        return;
    uint64_t waste = device->live - device->in_use, all = device->live + device->idle;
    /* Readers of the page add what caches have published by themselves. */
    const struct stats_sums *published = &device->published;
    set(&stats->in_use, device->in_use - stats_sums_in_use_bytes(published));
    set(&stats->idle, device->idle - stats_sums_idle_bytes(published));
    set(&stats->waste, waste - stats_sums_waste_bytes(published));
    set(&stats->peak_live, device->peak_live);
    set(&stats->peak_held, device->peak_held);
    set(&stats->allocations, device->allocations - stats_sums_malloc_calls(published));
    set(&stats->hits, device->hits - stats_sums_malloc_hits(published));
    if (device->noted_held == all && device->changes > ALWAYS_NOTED &&
        device->changes - device->noted < NOTE_EVERY)
        return;
    device->noted_held = all;
    device->noted = device->changes;
    add_sample(device);
}

/* The largest blocks met so far, the smallest of them first: a binary heap. */
struct largest {
    const struct pool_block *blocks[STATS_EXTENTS];
    size_t count, left_out;
};

static void sink_first(struct largest *heap) {
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < heap->count && heap->blocks[child + 1]->size < heap->blocks[child]->size)
            child++;
        if (child >= heap->count || heap->blocks[at]->size <= heap->blocks[child]->size)
            return;
        const struct pool_block *moved = heap->blocks[at];
        heap->blocks[at] = heap->blocks[child];
        heap->blocks[child] = moved;
        at = child;
    }
}

static void offer(struct largest *heap, const struct pool_block *block) {
    if (heap->count == STATS_EXTENTS) {
        heap->left_out++;
        if (block->size <= heap->blocks[0]->size)
            return;
        heap->blocks[0] = block;
        sink_first(heap);
        return;
    }
    size_t at = heap->count++;
    for (; at && block->size < heap->blocks[(at - 1) / 2]->size; at = (at - 1) / 2)
        heap->blocks[at] = heap->blocks[(at - 1) / 2];
    heap->blocks[at] = block;
}

BY_POINTER static int by_address(const void *one, const void *other) {
    const struct pool_block *a = *(const struct pool_block *const *)one;
    const struct pool_block *b = *(const struct pool_block *const *)other;
    return (a->pointer > b->pointer) - (a->pointer < b->pointer);
}

static void make_map(struct pool *pool, struct device *device) {
    static struct largest heap; /* too large for a stack; under the pool's lock */
    struct stats_device *stats = device->stats;
    const struct pool_block *block;
    struct ledger_place place = {0};
    heap.count = heap.left_out = 0;
    while ((block = ledger_next(pool, &place)))
        if (block->context->device == device)
            offer(&heap, block);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): pointers
    qsort(heap.blocks, heap.count, sizeof heap.blocks[0], by_address);
    for (size_t i = 0; i < heap.count; i++) {
        block = heap.blocks[i];
        set(&stats->map[i].address, block->pointer);
        set(&stats->map[i].bytes, block->size);
        stats->map[i].idle = block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED;
        stats->map[i].site = stats_site_index(block->site->stats);
    }
    set(&stats->map_left_out, heap.left_out);
    set(&stats->map_time_ns, stats_now());
    stats->extent_count = (uint32_t)heap.count;
}

void history_map(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    uint64_t all = device->live + device->idle;
    if (!device->stats || !pool->config.map ||
        all < device->mapped_held + device->mapped_held / 8 || pool->map.count > MAP_MOST_BLOCKS)
        return;
    device->mapped_held = all;
    make_map(pool, device);
}

static void close_history(struct pool *pool, struct device *device) {
    if (!device->stats)
        return;
    history_note(device);
    add_sample(device);
    if (pool->config.map && !device->mapped_held)
        make_map(pool, device);
}

void pool_note_end(struct pool *pool) {
    struct context *context;
    struct device *device;
    size_t largest = 0;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->kind.memory != POOL_DEVICE)
            continue;
        struct policy_usage usage;
        cache_drain(pool, context);
        context->policy->usage(&context->store, &usage);
        largest = usage.largest > largest ? usage.largest : largest;
    }
    stats_set(STATS_largest_idle_bytes, largest);
    LIST_FOREACH (device, &pool->devices, link)
        close_history(pool, device);
    pool_unlock(pool);
}
