/* Where a device's blocks lie in the address space, for the report: the map of its struct
 * stats_device; and what is noted when the program ends. */
#include "base/by_pointer.h"
#include "pool/internal.h"

#include <stdlib.h>

/* Beyond it a map would take longer than an allocation may. */
enum { MAP_MOST_BLOCKS = 1 << 16 };

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
        stats_write(&stats->map[i].address, block->pointer);
        stats_write(&stats->map[i].bytes, block->size);
        stats->map[i].idle = block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED;
        stats->map[i].site = stats_site_index(block->site->stats);
    }
    stats_write(&stats->map_left_out, heap.left_out);
    stats_write(&stats->map_time_ns, stats_now());
    stats->extent_count = (uint32_t)heap.count;
}

void block_map_grow(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    uint64_t all = device->held;
    if (!device->stats || all < device->mapped_held + device->mapped_held / 8 ||
        pool->map.count > MAP_MOST_BLOCKS)
        return;
    device->mapped_held = all;
    make_map(pool, device);
}

static void close_history(struct pool *pool, struct device *device) {
    if (!device->stats)
        return;
    history_note(device);
    history_sample(device);
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
        cache_drain(pool, context);
        const struct pool_block *block = context->keeper->largest(&context->store);
        largest = block && block->size > largest ? block->size : largest;
    }
    stats_set(STATS_largest_idle_bytes, largest);
    TAILQ_FOREACH (device, &pool->devices, link)
        close_history(pool, device);
    pool_unlock(pool);
}
