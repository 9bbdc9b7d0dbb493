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

/* Compares as signed numbers: while caches are merged one after the other, what one has freed of
 * another's makes sums less than nothing. */
static void raise(uint64_t *peak, uint64_t value) {
    if ((int64_t)value > (int64_t)*peak)
        *peak = value;
}

/* live: how much more it was than all devices' records say. */
static void note_pool_peaks(struct pool *pool, uint64_t live) {
    uint64_t held = 0;
    const struct device *device;
    LIST_FOREACH (device, &pool->devices, link)
        if (device->memory == POOL_DEVICE) {
            live += device->live;
            held += device->held;
        }
    raise(&pool->peak_live, live);
    raise(&pool->peak_held, held);
    stats_set(STATS_peak_live_bytes, pool->peak_live);
    stats_set(STATS_peak_held_bytes, pool->peak_held);
}

void ledger_note_peaks(struct pool *pool, struct device *device, uint64_t in_use, uint64_t live,
                       uint64_t taken) {
    lock_check_held(LOCK_POOL);
    raise(&device->peak_in_use, device->in_use + in_use);
    raise(&device->peak_live, device->live + live);
    raise(&device->peak_held, device->held);
    if (device->stats) {
        stats_write(&device->stats->peak_live, device->peak_live);
        stats_write(&device->stats->peak_held, device->peak_held);
    }
    decay_note_idle(device, (int64_t)(device_idle(device) - taken));
    if (device->memory == POOL_DEVICE)
        note_pool_peaks(pool, live);
}

/* Publishes memory that is no device's. The gauges of a kind stand in one order. */
static void publish_kind(const struct device *device) {
    enum stats_counter first =
        device->memory == POOL_HOST ? STATS_host_in_use_bytes : STATS_managed_in_use_bytes;
    stats_set(first, device->in_use);
    stats_set(first + 1, device_idle(device));
    stats_set(first + 2, device->held);
    stats_set(first + 3, device->peak_held);
}

void ledger_publish(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    ledger_note_peaks(pool, device, 0, 0, 0);
    if (!device->stats)
        publish_kind(device);
    history_note(device);
}

/* The block becomes live, or is that no longer. sign is 1 or -1, in unsigned arithmetic that may
 * wrap. */
static void count_live(struct pool_block *block, uint64_t sign) {
    struct context *context = block->context;
    struct device *device = context->device;
    struct stats_site *site = block->site->stats;
    uint64_t size = sign * block->size, in_use = sign * block->requested;
    if (block == context->sentinel)
        context->sentinel = NULL;
    context->live_blocks += sign;
    device->live += size;
    device->in_use += in_use;
    device->live_blocks += sign;
    device->over_size += sign * over_size(block);
    struct stats_device *told = device->stats;
    if (told) {
        stats_grow(&told->live, size);
        stats_grow(&told->in_use, in_use);
        stats_grow(&told->live_blocks, sign);
    }
    stats_grow(&site->live_blocks, sign);
    stats_grow(&site->live_bytes, size);
    stats_raise(&site->peak_live_bytes, &site->live_bytes);
}

/* The device has that many more blocks, or bytes: they are idle until count_live has them. */
static void count_held(struct device *device, uint64_t blocks, uint64_t bytes) {
    device->blocks += blocks;
    device->held += bytes;
    if (device->stats) {
        stats_grow(&device->stats->blocks, blocks);
        stats_grow(&device->stats->held, bytes);
    }
}

/* The site has. */
static void count_of_site(const struct site *site, uint64_t blocks, uint64_t bytes) {
    stats_grow(&site->stats->held_blocks, blocks);
    stats_grow(&site->stats->held_bytes, bytes);
}

/* The block is there, or is no longer; sign as above. */
static void count_block(const struct pool_block *block, uint64_t sign) {
    count_held(block->context->device, sign, sign * block->size);
    count_of_site(block->site, sign, sign * block->size);
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

/* Takes the block out of the sums, as it goes out of the map. Nothing is more than it was then, so
 * that there is no new peak. */
static void subtract(struct pool_block *block) {
    struct device *device = block->context->device;
    if (block->state != BLOCK_IDLE && block->state != BLOCK_DEFERRED)
        count_live(block, (uint64_t)-1);
    count_block(block, (uint64_t)-1);
    ledger_set_state(block, BLOCK_GONE);
    decay_note_idle(device, (int64_t)device_idle(device));
    if (!device->stats)
        publish_kind(device);
}

void ledger_remove_unnoted(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    pointer_map_remove(&pool->map, block);
    if (__builtin_expect(pool->indexed, 0))
        address_index_remove(pool, block);
    subtract(block);
}

void ledger_remove(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_remove_unnoted(pool, block);
    history_note(block->context->device);
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
    subtract(stale);
    history_note(stale->context->device);
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
    count_block(block, 1);
    if (state == BLOCK_LIVE) {
        count_live(block, 1);
    } else {
        block->requested = 0;
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
        count_block(block, 1);
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
    count_held(block->context->device, 1, 0);
    count_of_site(block->site, 1, 0);
    ledger_publish(pool, block->context->device);
    return rest;
}

void ledger_coalesce(struct pool *pool, struct pool_block *block, struct pool_block *next) {
    lock_check_held(LOCK_POOL);
    pointer_map_remove(&pool->map, next);
    block->size += next->size;
    count_held(block->context->device, (uint64_t)-1, 0);
    count_of_site(next->site, (uint64_t)-1, 0 - (uint64_t)next->size);
    count_of_site(block->site, 0, next->size);
    ledger_recycle(pool, next);
    ledger_publish(pool, block->context->device);
}

void ledger_count_unused(struct pool *pool, struct context *context, size_t change) {
    lock_check_held(LOCK_POOL);
    struct device *device = context->device;
    context->store.unused += change;
    count_held(device, 0, change);
    ledger_publish(pool, device);
}

void ledger_adopt(struct pool *pool, struct pool_block *fresh) {
    lock_check_held(LOCK_POOL);
    while (fresh) {
        struct pool_block *block = fresh;
        fresh = block->next;
        if (insert(pool, block))
            continue;
        count_live(block, (uint64_t)-1);
        count_block(block, (uint64_t)-1);
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
        count_block(block, 1);
        count_live(block, 1);
        ledger_publish(pool, block->context->device);
    }
    return block;
}

void ledger_make_deferred(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    count_live(block, (uint64_t)-1);
    block->requested = 0;
    ledger_set_state(block, BLOCK_DEFERRED);
    ledger_publish(pool, block->context->device);
}

/* Lock held. */
static void keep_part(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct idle_store *store = &block->context->store;
    struct pool_block *part;
    while ((part = region_join(store, &block)))
        ledger_coalesce(pool, block, part);
    block->context->keeper->give(store, block);
}

void ledger_keep(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct pool_block *rest;
    if (!block->context->keeper->cuts) {
        block->context->keeper->give(&block->context->store, block);
        return;
    }
    for (; block; block = rest) {
        size_t same = region_set_bar(block);
        rest = same < block->size ? ledger_split(pool, block, same) : NULL;
        if (rest)
            region_part(block, rest);
        keep_part(pool, block);
    }
}

static void keep_suballocation(struct pool *pool, struct pool_block *block) {
    block->taints = 0; /* what it left behind is tainted or barred */
    block->state = BLOCK_IDLE;
    ledger_keep(pool, block);
}

void ledger_end_deferral(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (block->context->keeper->cuts) {
        keep_suballocation(pool, block);
        return;
    }
    block->state = BLOCK_IDLE;
    if (!cache_put(pool, block))
        block->context->keeper->give(&block->context->store, block);
}

void ledger_make_idle(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_make_deferred(pool, block);
    ledger_end_deferral(pool, block);
}

void ledger_make_live(struct pool *pool, struct pool_block *block, struct site *site,
                      size_t requested) {
    lock_check_held(LOCK_POOL);
    count_of_site(block->site, (uint64_t)-1, 0 - (uint64_t)block->size);
    count_of_site(site, 1, block->size);
    block->site = site;
    block->requested = requested;
    ledger_set_state(block, BLOCK_LIVE);
    count_live(block, 1);
    ledger_publish(pool, block->context->device);
}
