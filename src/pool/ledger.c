/* Records of blocks and the sums over them. */
#include "keep/region.h"
#include "pool/internal.h"

#include "planted.h"

#include <stdlib.h>

enum { SLAB_LEAST = 128, SLAB_MOST = 512 };

struct record_slab {
    struct record_slab *next;
    void *memory; /* that malloc gave: it aligns to less */
    size_t count;
    struct pool_block blocks[];
};

static size_t over_size(const struct pool_block *block) {
    size_t rounded = block->context->keeper->round(block->requested);
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

/* Publishes memory that is no device's. The gauges of a kind stand in one order. */
static void publish_kind(struct device *device) {
    enum stats_counter first =
        device->memory == POOL_HOST ? STATS_host_in_use_bytes : STATS_managed_in_use_bytes;
    note_peaks(device);
    stats_set(first, device->in_use);
    stats_set(first + 1, device->idle);
    stats_set(first + 2, device->live + device->idle);
    stats_set(first + 3, device->peak_held);
    history_note(device);
}

/* Readers of the page add what caches have published by themselves: see struct stats_shard. */
void ledger_publish(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    if (device->memory != POOL_DEVICE) {
        publish_kind(device);
        return;
    }
    uint64_t live = pool->in_use + pool->waste, held = live + pool->idle;
    if (live > pool->peak_live)
        pool->peak_live = live;
    if (held > pool->peak_held)
        pool->peak_held = held;
    const struct stats_sums *published = &pool->published;
    stats_set(STATS_in_use_bytes, pool->in_use - stats_sums_in_use_bytes(published));
    stats_set(STATS_idle_bytes, pool->idle - stats_sums_idle_bytes(published));
    stats_set(STATS_waste_bytes, pool->waste - stats_sums_waste_bytes(published));
    stats_set(STATS_held_bytes, held - stats_sums_held_bytes(published));
    stats_set(STATS_peak_live_bytes, pool->peak_live);
    stats_set(STATS_peak_held_bytes, pool->peak_held);
    stats_set(STATS_live_blocks, pool->live_blocks - stats_sums_live_blocks(published));
    stats_set(STATS_idle_blocks, pool->idle_blocks - stats_sums_idle_blocks(published));
    note_peaks(device);
    history_note(device);
}

/* sign is 1 or -1 in unsigned arithmetic that may wrap. */
static void count_live(struct pool *pool, struct pool_block *block, uint64_t sign) {
    struct device *device = block->context->device;
    struct stats_site *stats = block->site->stats;
    if (block == block->context->sentinel)
        block->context->sentinel = NULL;
    if (device->memory == POOL_DEVICE) {
        pool->in_use += sign * block->requested;
        pool->waste += sign * (block->size - block->requested);
        pool->live_blocks += sign;
    }
    device->in_use += sign * block->requested;
    block->context->live_blocks += sign;
    device->live += sign * block->size;
    device->live_blocks += sign;
    device->over_size += sign * over_size(block);
    stats_grow(&stats->held_blocks, sign);
    stats_grow(&stats->held_bytes, sign * block->size);
    stats_grow(&stats->live_blocks, sign);
    stats_grow(&stats->live_bytes, sign * block->size);
    stats_raise(&stats->peak_live_bytes, &stats->live_bytes);
}

static void count_idle(struct pool *pool, struct pool_block *block, uint64_t sign) {
    struct device *device = block->context->device;
    if (device->memory == POOL_DEVICE) {
        pool->idle += sign * block->size;
        pool->idle_blocks += sign;
    }
    device->idle += sign * block->size;
    device->idle_blocks += sign;
    if (device->idle < device->least_idle)
        device->least_idle = device->idle;
    stats_grow(&block->site->stats->held_blocks, sign);
    stats_grow(&block->site->stats->held_bytes, sign * block->size);
}

static struct record_slab *new_slab(size_t count) {
    const size_t alignment = _Alignof(struct record_slab);
    size_t size = sizeof(struct record_slab) + count * sizeof(struct pool_block);
    char *memory = malloc(size + alignment);
    if (!memory || (uintptr_t)(memory + size + alignment) >> POINTER_TAG_SHIFT) {
        free(memory);
        return NULL;
    }
    struct record_slab *slab =
        (struct record_slab *)(void *)(memory + alignment - (uintptr_t)memory % alignment);
    slab->memory = memory;
    slab->count = count;
    return slab;
}

/* A quarter more than there are, within bounds: a program that misses often then rarely waits for
 * more. */
static size_t slab_size(const struct pool *pool) {
    size_t count = pool->record_count / 4;
    return count < SLAB_LEAST ? SLAB_LEAST : count > SLAB_MOST ? SLAB_MOST : count;
}

/* Records that the thread's cache has taken and not used come first: else a thread whose cache is
 * granted little, and takes all that there are at each miss, has a slab made at each miss, too. */
static bool has_spare(struct pool *pool) {
    if (!pool->spare)
        pool->spare = cache_give_spares(pool);
    struct record_slab *slab = pool->spare ? NULL : new_slab(slab_size(pool));
    if (slab) {
        slab->next = pool->slabs;
        pool->slabs = slab;
        pool->record_count += slab->count;
        for (size_t i = 0; i < slab->count; i++) {
            slab->blocks[i].state = BLOCK_GONE;
            slab->blocks[i].next = &slab->blocks[i + 1];
        }
        slab->blocks[slab->count - 1].next = NULL;
        pool->spare = slab->blocks;
    }
    return pool->spare != NULL;
}

static struct pool_block *take_record(struct pool *pool) {
    struct pool_block *block = has_spare(pool) ? pool->spare : NULL;
    if (block)
        pool->spare = block->next;
    return block;
}

/* Takes all unused records that there are: mostly one slab's. */
struct pool_block *ledger_take_records(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct pool_block *blocks = has_spare(pool) ? pool->spare : NULL;
    pool->spare = NULL;
    return blocks;
}

void ledger_recycle(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    block->state = BLOCK_GONE;
    block->next = pool->spare;
    pool->spare = block;
}

void ledger_destroy_records(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    pointer_map_destroy(&pool->map);
    while (pool->slabs) {
        struct record_slab *next = pool->slabs->next;
        free(pool->slabs->memory);
        pool->slabs = next;
    }
    pool->spare = NULL;
    pool->record_count = 0;
    pool->sentinel_place = (struct ledger_place){0};
}

struct pool_block *ledger_next(const struct pool *pool, struct ledger_place *place) {
    lock_check_held(LOCK_POOL);
    if (!place->begun)
        *place = (struct ledger_place){pool->slabs, 0, true};
    for (; place->slab; place->slab = place->slab->next, place->index = 0)
        while (place->index < place->slab->count) {
            struct pool_block *block = &place->slab->blocks[place->index++];
            if (block->state != BLOCK_GONE)
                return block;
        }
    return NULL;
}

struct pool_block *ledger_look(const struct pool *pool, struct ledger_place *place) {
    lock_check_held(LOCK_POOL);
    if (!place->slab)
        *place = (struct ledger_place){pool->slabs, 0, true};
    if (!place->slab)
        return NULL;
    struct pool_block *block = &place->slab->blocks[place->index++];
    if (place->index == place->slab->count)
        *place = (struct ledger_place){place->slab->next, 0, true};
    return block->state == BLOCK_GONE ? NULL : block;
}

bool ledger_index(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    struct ledger_place place = {0};
    if (pool->indexed)
        return true;
    pool->indexed = true;
    while (pool->indexed && (block = ledger_next(pool, &place)))
        address_index_add(pool, block);
    return pool->indexed;
}

/* A cache may take only what it can count and keep as the policy does. */
void ledger_set_state(struct pool_block *block, enum block_state state) {
    lock_check_held(LOCK_POOL);
    block->state = (uint8_t)state;
    block->quick_freeable = state == BLOCK_LIVE && block->context->keeper->take_same &&
                            !block->taints && !block->in_driver_pool;
}

/* Takes the block out of the sums, as it goes out of the map. */
static void subtract(struct pool *pool, struct pool_block *block) {
    if (block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED)
        count_idle(pool, block, (uint64_t)-1);
    else
        count_live(pool, block, (uint64_t)-1);
    ledger_set_state(block, BLOCK_GONE);
    ledger_publish(pool, block->context->device);
}

void ledger_remove(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    pointer_map_remove(&pool->map, block);
    if (__builtin_expect(pool->indexed, 0))
        address_index_remove(pool, block);
    subtract(pool, block);
}

void ledger_forget_region(struct pool *pool, struct idle_store *store, struct region *region) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    while ((block = region_first(region))) {
        bool waited_for = block->state == BLOCK_WAITING;
        if (block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED)
            ledger_take_out(pool, block);
        region_leave(block);
        ledger_remove(pool, block);
        if (!waited_for)
            ledger_recycle(pool, block);
    }
    region_forget(store, region);
}

/* Forgets an older record of an address: the driver would not have given that again while its block
 * existed. */
__attribute__((noinline)) static void forget_stale(struct pool *pool, struct pool_block *stale) {
    bool waited_for = stale->state == BLOCK_WAITING;
    if (pool->indexed)
        address_index_remove(pool, stale);
    if (stale->state == BLOCK_IDLE || stale->state == BLOCK_DEFERRED)
        ledger_take_out(pool, stale);
    if (stale->context->keeper->cuts) {
        struct region *region = stale->region;
        region_leave(stale);
        ledger_forget_region(pool, &stale->context->store, region);
    }
    subtract(pool, stale);
    if (!waited_for) /* else the thread that waits still holds it */
        ledger_recycle(pool, stale);
}

/* Puts the block into the map. False without host memory. */
static inline bool insert(struct pool *pool, struct pool_block *block) {
    struct pool_block *stale;
    if (!pointer_map_add(&pool->map, block, &stale))
        return false;
    if (__builtin_expect(stale != NULL, 0))
        forget_stale(pool, stale);
    if (__builtin_expect(pool->indexed, 0))
        address_index_add(pool, block);
    return true;
}

void ledger_restore(struct pool *pool, struct pool_block *block, enum block_state state) {
    lock_check_held(LOCK_POOL);
    if (block->context->ended || !insert(pool, block)) {
        ledger_recycle(pool, block);
        return;
    }
    ledger_set_state(block, state);
    if (state == BLOCK_LIVE) {
        count_live(pool, block, 1);
    } else {
        block->requested = 0;
        count_idle(pool, block, 1);
        if (state == BLOCK_IDLE)
            ledger_keep(pool, block);
        else
            fence_defer(pool, block, NULL);
    }
    ledger_publish(pool, block->context->device);
}

void ledger_take_out(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (block->cached)
        cache_drain(pool, block->context);
    if (block->state == BLOCK_DEFERRED)
        LIST_REMOVE(block, in_list);
    else
        block->context->keeper->remove(&block->context->store, block);
}

/* Makes a record in the table, in no sums and of no state yet. */
static struct pool_block *add_record(struct pool *pool, const struct pool_block *described) {
    struct pool_block *block = take_record(pool);
    if (block) {
        *block = *described;
        if (!insert(pool, block)) {
            ledger_recycle(pool, block);
            block = NULL;
        }
    }
    if (!block)
        stats_add(STATS_no_memory_for_records, 1);
    return block;
}

struct pool_block *ledger_add_region(struct pool *pool, struct context *context, struct site *site,
                                     CUdeviceptr pointer, size_t size) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = add_record(pool, &(struct pool_block){.pointer = pointer,
                                                                     .size = size,
                                                                     .context = context,
                                                                     .site = site,
                                                                     .state = BLOCK_IDLE});
    if (block) {
        count_idle(pool, block, 1);
        ledger_publish(pool, block->context->device);
    }
    return block;
}

struct pool_block *ledger_split(struct pool *pool, struct pool_block *block, size_t size) {
    lock_check_held(LOCK_POOL);
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
    stats_grow(&block->site->stats->held_blocks, 1);
    ledger_publish(pool, block->context->device);
    return rest;
}

void ledger_coalesce(struct pool *pool, struct pool_block *block, struct pool_block *next) {
    lock_check_held(LOCK_POOL);
    pointer_map_remove(&pool->map, next);
    block->size += next->size;
    pool->idle_blocks--;
    block->context->device->idle_blocks--;
    stats_grow(&next->site->stats->held_blocks, (uint64_t)-1);
    stats_grow(&next->site->stats->held_bytes, -(uint64_t)next->size);
    stats_grow(&block->site->stats->held_bytes, next->size);
    ledger_recycle(pool, next);
    ledger_publish(pool, block->context->device);
}

void ledger_count_unused(struct pool *pool, struct context *context, size_t change) {
    lock_check_held(LOCK_POOL);
    struct device *device = context->device;
    context->store.unused += change;
    pool->idle += change;
    device->idle += change;
    if (device->idle < device->least_idle)
        device->least_idle = device->idle;
    ledger_publish(pool, device);
}

void ledger_adopt(struct pool *pool, struct pool_block *fresh) {
    lock_check_held(LOCK_POOL);
    while (fresh) {
        struct pool_block *block = fresh;
        fresh = block->next;
        if (insert(pool, block))
            continue;
        count_live(pool, block, (uint64_t)-1);
        ledger_recycle(pool, block);
        stats_add(STATS_no_memory_for_records, 1);
    }
}

struct pool_block *ledger_add(struct pool *pool, struct context *context, struct site *site,
                              CUdeviceptr pointer, size_t size, size_t requested) {
    lock_check_held(LOCK_POOL);
    struct pool_block *stale = PLANTED(record_removed_late) ? ledger_find(pool, pointer) : NULL;
    if (stale)
        return stale;
    struct pool_block *block = add_record(pool, &(struct pool_block){.pointer = pointer,
                                                                     .size = size,
                                                                     .asked = requested,
                                                                     .requested = requested,
                                                                     .context = context,
                                                                     .site = site,
                                                                     .state = BLOCK_LIVE});
    if (block) {
        ledger_set_state(block, BLOCK_LIVE);
        count_live(pool, block, 1);
        ledger_publish(pool, block->context->device);
    }
    return block;
}

void ledger_make_deferred(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    count_live(pool, block, (uint64_t)-1);
    block->requested = 0;
    ledger_set_state(block, BLOCK_DEFERRED);
    count_idle(pool, block, 1);
    ledger_publish(pool, block->context->device);
}

void ledger_keep(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct idle_store *store = &block->context->store;
    const struct keeper *keeper = block->context->keeper;
    struct pool_block *part;
    while (keeper->cuts && (part = region_join(store, &block)))
        ledger_coalesce(pool, block, part);
    keeper->give(store, block);
}

/* No request may get what the driver keeps state in for others. */
static void keep_suballocation(struct pool *pool, struct pool_block *block) {
    if (block->taints) /* a second time, where the free has not done so */
        region_taint(&block->context->store, block->region);
    block->state = BLOCK_IDLE;
    ledger_keep(pool, block);
}

/* size: of the request that the block has served, rounded. */
static void end_deferral(struct pool *pool, struct pool_block *block, size_t size) {
    if (block->context->keeper->cuts) {
        keep_suballocation(pool, block);
        return;
    }
    block->state = BLOCK_IDLE;
    if (!cache_put(pool, block, size))
        block->context->keeper->give(&block->context->store, block);
}

void ledger_end_deferral(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    end_deferral(pool, block, block->size);
}

void ledger_make_idle(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    size_t size = block->context->keeper->round(block->requested);
    ledger_make_deferred(pool, block);
    end_deferral(pool, block, size < block->size ? size : block->size);
}

void ledger_make_live(struct pool *pool, struct pool_block *block, struct site *site,
                      size_t requested) {
    lock_check_held(LOCK_POOL);
    count_idle(pool, block, (uint64_t)-1);
    block->site = site;
    block->requested = requested;
    ledger_set_state(block, BLOCK_LIVE);
    count_live(pool, block, 1);
    ledger_publish(pool, block->context->device);
}
