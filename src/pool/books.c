/* Records of blocks and the sums over them. */
#include "pool/history.h"
#include "pool/internal.h"

#include "planted.h"

#include <stdlib.h>

enum { SLAB_BLOCKS = 64 };

struct record_slab {
    struct record_slab *next;
    struct pool_block blocks[SLAB_BLOCKS];
};

static size_t over_size(const struct pool *pool, const struct pool_block *block) {
    size_t rounded = pool->policy->round(block->requested);
    return block->size > rounded ? block->size - rounded : 0;
}

static void note_peaks(struct device *device) {
    uint64_t held = device->live + device->idle;
    if (device->in_use > device->peak_in_use)
        device->peak_in_use = device->in_use;
    if (device->live > device->peak_live)
        device->peak_live = device->live;
    if (held > device->peak_held)
        device->peak_held = held;
}

static void publish(struct pool *pool, struct device *device) {
    uint64_t live = pool->in_use + pool->waste, held = live + pool->idle;
    if (live > pool->peak_live)
        pool->peak_live = live;
    if (held > pool->peak_held)
        pool->peak_held = held;
    stats_set(STATS_in_use_bytes, pool->in_use);
    stats_set(STATS_idle_bytes, pool->idle);
    stats_set(STATS_waste_bytes, pool->waste);
    stats_set(STATS_held_bytes, held);
    stats_set(STATS_peak_live_bytes, pool->peak_live);
    stats_set(STATS_peak_held_bytes, pool->peak_held);
    stats_set(STATS_live_blocks, pool->live_blocks);
    stats_set(STATS_idle_blocks, pool->idle_blocks);
    note_peaks(device);
    history_note(device);
}

static void site_set(_Atomic uint64_t *figure, uint64_t delta) {
    atomic_store_explicit(figure, atomic_load_explicit(figure, memory_order_relaxed) + delta,
                          memory_order_relaxed);
}

/* sign is 1 or -1 in unsigned arithmetic, which wraps as wanted. */
static void count_live(struct pool *pool, struct pool_block *block, uint64_t sign) {
    struct device *device = block->context->device;
    struct stats_site *stats = block->site->stats;
    pool->in_use += sign * block->requested;
    device->in_use += sign * block->requested;
    pool->waste += sign * (block->size - block->requested);
    pool->live_blocks += sign;
    block->context->live_blocks += sign;
    device->live += sign * block->size;
    device->live_blocks += sign;
    device->over_size += sign * over_size(pool, block);
    site_set(&stats->live_blocks, sign);
    site_set(&stats->live_bytes, sign * block->size);
    uint64_t live = atomic_load_explicit(&stats->live_bytes, memory_order_relaxed);
    if (live > atomic_load_explicit(&stats->peak_live_bytes, memory_order_relaxed))
        atomic_store_explicit(&stats->peak_live_bytes, live, memory_order_relaxed);
}

static void count_idle(struct pool *pool, struct pool_block *block, uint64_t sign) {
    pool->idle += sign * block->size;
    pool->idle_blocks += sign;
    struct device *device = block->context->device;
    device->idle += sign * block->size;
    device->idle_blocks += sign;
    if (device->idle < device->least_idle)
        device->least_idle = device->idle;
    site_set(&block->site->stats->idle_blocks, sign);
    site_set(&block->site->stats->idle_bytes, sign * block->size);
}

static struct pool_block *take_record(struct pool *pool) {
    if (!pool->spare) {
        struct record_slab *slab = calloc(1, sizeof *slab);
        if (!slab)
            return NULL;
        slab->next = pool->slabs;
        pool->slabs = slab;
        for (int i = 0; i < SLAB_BLOCKS; i++)
            books_recycle(pool, &slab->blocks[i]);
    }
    struct pool_block *block = pool->spare;
    pool->spare = block->by_size.rbe_left;
    *block = (struct pool_block){0};
    return block;
}

void books_recycle(struct pool *pool, struct pool_block *block) {
    block->by_size.rbe_left = pool->spare;
    pool->spare = block;
}

void books_free_records(struct pool *pool) {
    HASH_CLEAR(by_pointer, pool->blocks);
    while (pool->slabs) {
        struct record_slab *next = pool->slabs->next;
        free(pool->slabs);
        pool->slabs = next;
    }
    pool->spare = NULL;
}

/* Returns false if the table could not grow. */
static bool enter_table(struct pool *pool, struct pool_block *block) {
    HASH_ADD(by_pointer, pool->blocks, pointer, sizeof block->pointer, block);
    return block->by_pointer.tbl != NULL;
}

struct pool_block *books_find(struct pool *pool, CUdeviceptr pointer) {
    uint64_t key = pointer;
    struct pool_block *block;
    HASH_FIND(by_pointer, pool->blocks, &key, sizeof key, block);
    return block;
}

void books_remove(struct pool *pool, struct pool_block *block) {
    HASH_DELETE(by_pointer, pool->blocks, block);
    if (block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED)
        count_idle(pool, block, (uint64_t)-1);
    else
        count_live(pool, block, (uint64_t)-1);
    block->state = BLOCK_GONE;
    publish(pool, block->context->device);
}

void books_restore(struct pool *pool, struct pool_block *block, enum block_state state) {
    block->by_pointer.tbl = NULL;
    if (block->context->ended || !enter_table(pool, block)) {
        books_recycle(pool, block);
        return;
    }
    block->state = state;
    if (state == BLOCK_LIVE) {
        count_live(pool, block, 1);
    } else {
        block->requested = 0;
        count_idle(pool, block, 1);
        if (state == BLOCK_IDLE)
            pool->policy->give(&block->context->store, block);
        else
            fence_defer(pool, block);
    }
    publish(pool, block->context->device);
}

void books_take_out(struct pool *pool, struct pool_block *block) {
    if (block->state == BLOCK_DEFERRED)
        LIST_REMOVE(block, in_list);
    else
        pool->policy->remove(&block->context->store, block);
}

/* A record in the table, in no sums and of no state yet. */
static struct pool_block *add_record(struct pool *pool, const struct pool_block *described) {
    struct pool_block *block = take_record(pool);
    if (block) {
        *block = *described;
        if (!enter_table(pool, block)) {
            books_recycle(pool, block);
            block = NULL;
        }
    }
    if (!block)
        stats_add(STATS_no_memory_for_records, 1);
    return block;
}

struct pool_block *books_add_region(struct pool *pool, struct context *context, struct site *site,
                                    CUdeviceptr pointer, size_t size) {
    struct pool_block *block = add_record(pool, &(struct pool_block){.pointer = pointer,
                                                                     .size = size,
                                                                     .context = context,
                                                                     .site = site,
                                                                     .state = BLOCK_IDLE});
    if (block) {
        count_idle(pool, block, 1);
        publish(pool, block->context->device);
    }
    return block;
}

struct pool_block *books_split(struct pool *pool, struct pool_block *block, size_t size) {
    struct pool_block *rest =
        add_record(pool, &(struct pool_block){.pointer = block->pointer + size,
                                              .size = block->size - size,
                                              .context = block->context,
                                              .site = block->site,
                                              .state = BLOCK_IDLE});
    if (!rest)
        return NULL;
    block->size = size;
    pool->idle_blocks++;
    block->context->device->idle_blocks++;
    site_set(&block->site->stats->idle_blocks, 1);
    publish(pool, block->context->device);
    return rest;
}

void books_merge(struct pool *pool, struct pool_block *block, struct pool_block *next) {
    HASH_DELETE(by_pointer, pool->blocks, next);
    block->size += next->size;
    pool->idle_blocks--;
    block->context->device->idle_blocks--;
    site_set(&next->site->stats->idle_blocks, (uint64_t)-1);
    site_set(&next->site->stats->idle_bytes, -(uint64_t)next->size);
    site_set(&block->site->stats->idle_bytes, next->size);
    books_recycle(pool, next);
    publish(pool, block->context->device);
}

void books_count_unused(struct pool *pool, struct context *context, size_t change) {
    struct device *device = context->device;
    context->store.unused += change;
    pool->idle += change;
    device->idle += change;
    if (device->idle < device->least_idle)
        device->least_idle = device->idle;
    publish(pool, device);
}

struct pool_block *books_add(struct pool *pool, struct context *context, struct site *site,
                             CUdeviceptr pointer, size_t size, size_t requested) {
    struct pool_block *stale = books_find(pool, pointer);
    if (stale && PLANTED(record_removed_late))
        return stale;
    if (stale) {
        bool waited_for = stale->state == BLOCK_WAITING;
        if (stale->state == BLOCK_IDLE || stale->state == BLOCK_DEFERRED)
            books_take_out(pool, stale);
        books_remove(pool, stale);
        if (!waited_for) /* else the thread that waits still holds it */
            books_recycle(pool, stale);
    }
    struct pool_block *block = add_record(pool, &(struct pool_block){.pointer = pointer,
                                                                     .size = size,
                                                                     .asked = requested,
                                                                     .requested = requested,
                                                                     .context = context,
                                                                     .site = site,
                                                                     .state = BLOCK_LIVE});
    if (block) {
        count_live(pool, block, 1);
        publish(pool, block->context->device);
    }
    return block;
}

void books_make_deferred(struct pool *pool, struct pool_block *block) {
    count_live(pool, block, (uint64_t)-1);
    block->requested = 0;
    block->state = BLOCK_DEFERRED;
    count_idle(pool, block, 1);
    publish(pool, block->context->device);
}

void books_make_ready(struct pool *pool, struct pool_block *block) {
    block->state = BLOCK_IDLE;
    pool->policy->give(&block->context->store, block);
}

void books_make_idle(struct pool *pool, struct pool_block *block) {
    books_make_deferred(pool, block);
    books_make_ready(pool, block);
}

void books_make_live(struct pool *pool, struct pool_block *block, struct site *site,
                     size_t requested) {
    count_idle(pool, block, (uint64_t)-1);
    block->site = site;
    block->requested = requested;
    block->state = BLOCK_LIVE;
    count_live(pool, block, 1);
    publish(pool, block->context->device);
}
