/* Regions: their blocks, by address, and the regions of a store. */
#include "base/sizes.h"
#include "keep/region_bins.h"

#include <stdlib.h>

static int compare_address(const struct pool_block *one, const struct pool_block *other) {
    return one->pointer < other->pointer ? -1 : one->pointer > other->pointer;
}

static int compare_base(const struct region *one, const struct region *other) {
    return one->base < other->base ? -1 : one->base > other->base;
}

#define UNUSED __attribute__((unused))
RB_GENERATE_INTERNAL(address_tree, pool_block, by_address, compare_address, static UNUSED)
RB_GENERATE_INTERNAL(base_tree, region, by_base, compare_base, static UNUSED)

bool region_open(struct idle_store *store) {
    store->regions = calloc(1, sizeof *store->regions);
    return store->regions;
}

bool region_open_kinds(struct idle_store *store) {
    bool opened = region_open(store);
    if (opened)
        store->regions->small_most = REGION_SMALL_MOST;
    return opened;
}

void region_close(struct idle_store *store) {
    struct regions *regions = store->regions;
    struct region *region;
    store->regions = NULL;
    while (regions && (region = RB_MIN(base_tree, &regions->by_base))) {
        RB_REMOVE(base_tree, &regions->by_base, region);
        free(region);
    }
    free(regions);
}

size_t region_round(size_t bytes) {
    return round_up(bytes, ROUND_SMALL);
}

/* --- cutting and merging --- */

size_t region_set_bar(struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct reservation *reservation = block->region->reservation;
    uint64_t until = block->pointer + block->size;
    block->bar = reservation
                     ? (uint8_t)reservation_bar(reservation, block->pointer, block->size, &until)
                     : BAR_NONE;
    return until - block->pointer;
}

/* Adds the part of a block that has been cut off. Lock held. */
static void add_rest(struct pool_block *block, struct pool_block *rest) {
    lock_check_held(LOCK_POOL);
    rest->region = block->region;
    RB_INSERT(address_tree, &block->region->blocks, rest);
    block->region->block_count++;
}

void region_part(struct pool_block *block, struct pool_block *rest) {
    lock_check_held(LOCK_POOL);
    add_rest(block, rest);
    region_set_bar(block);
    /* Not that of all its chunks: it differs from the block's, so that they do not join. */
    rest->bar = (uint8_t)reservation_at(block->region->reservation, rest->pointer)->bar;
}

void region_cut(struct idle_store *store, struct pool_block *block, struct pool_block *rest) {
    lock_check_held(LOCK_POOL);
    add_rest(block, rest);
    rest->bar = block->bar;
    region_give(store, rest);
}

void region_leave(struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    RB_REMOVE(address_tree, &block->region->blocks, block);
    block->region->block_count--;
}

static bool is_idle(const struct pool_block *block) {
    return block && block->state == BLOCK_IDLE;
}

/* Whether idle neighbours are to be one. */
static bool are_one(const struct pool_block *block, const struct pool_block *neighbour) {
    return is_idle(block) && is_idle(neighbour) && block->bar == neighbour->bar;
}

struct pool_block *region_join(struct idle_store *store, struct pool_block **block) {
    lock_check_held(LOCK_POOL);
    struct pool_block *before, *after = RB_NEXT(address_tree, NULL, *block);
    if (are_one(*block, after)) {
        region_remove(store, after);
    } else if (are_one(*block, before = RB_PREV(address_tree, NULL, *block))) {
        region_remove(store, before);
        after = *block;
        *block = before;
    } else {
        return NULL;
    }
    region_leave(after);
    return after;
}

/* --- regions --- */

struct pool_block *region_find(struct idle_store *store, uint64_t address) {
    struct region at = {.base = address};
    struct region *region = RB_NFIND(base_tree, &store->regions->by_base, &at);
    if (!region)
        region = RB_MAX(base_tree, &store->regions->by_base);
    else if (region->base > address)
        region = RB_PREV(base_tree, NULL, region);
    if (!region || address < region->base || address - region->base >= region->size)
        return NULL;
    struct pool_block key = {.pointer = address};
    struct pool_block *block = RB_NFIND(address_tree, &region->blocks, &key);
    if (!block)
        return RB_MAX(address_tree, &region->blocks);
    return block->pointer == address ? block : RB_PREV(address_tree, NULL, block);
}

struct pool_block *region_first(struct region *region) {
    return RB_MIN(address_tree, &region->blocks);
}

struct pool_block *region_next(struct pool_block *block) {
    return RB_NEXT(address_tree, NULL, block);
}

void region_forget(struct idle_store *store, struct region *region) {
    lock_check_held(LOCK_POOL);
    RB_REMOVE(base_tree, &store->regions->by_base, region);
    store->regions->count--;
    free(region);
}

struct region *region_overlapping(struct idle_store *store, uint64_t base, size_t size) {
    lock_check_held(LOCK_POOL);
    struct region at = {.base = base};
    struct region *next = RB_NFIND(base_tree, &store->regions->by_base, &at);
    struct pool_block *around = region_find(store, base);
    return next && next->base - base < size ? next : around ? around->region : NULL;
}

bool region_add(struct idle_store *store, struct pool_block *block, size_t wanted) {
    struct region *region = calloc(1, sizeof *region);
    if (!region)
        return false;
    *region = (struct region){.base = block->pointer,
                              .size = block->size,
                              .block_count = 1,
                              .among = store->regions,
                              .small = wanted <= store->regions->small_most};
    block->region = region;
    RB_INSERT(address_tree, &region->blocks, block);
    RB_INSERT(base_tree, &store->regions->by_base, region);
    store->regions->count++;
    return true;
}

void region_taint(struct idle_store *store, struct region *region) {
    struct pool_block *block;
    if (region->tainted)
        return;
    RB_FOREACH (block, address_tree, &region->blocks)
        if (is_idle(block))
            region_remove(store, block);
    region->tainted = true;
    RB_FOREACH (block, address_tree, &region->blocks)
        if (is_idle(block))
            region_give(store, block);
}

bool region_extend(struct idle_store *store, struct reservation *reservation,
                   struct pool_block *block) {
    struct pool_block *last = region_find(store, block->pointer - 1);
    struct region *region = last ? last->region : NULL;
    if (!region || region->reservation != reservation) {
        if (!region_add(store, block, SIZE_MAX))
            return false;
        block->region->reservation = reservation;
        block->region->small = reservation->small;
        return true;
    }
    block->region = region;
    RB_INSERT(address_tree, &region->blocks, block);
    region->size += block->size;
    region->block_count++;
    return true;
}

struct pool_block *region_tail(struct idle_store *store, const struct reservation *reservation,
                               uint64_t end) {
    struct pool_block *last = region_find(store, end - 1);
    return is_idle(last) && last->region->reservation == reservation && !last->bar ? last : NULL;
}

/* Whether there are fewer blocks before this one than from it on. */
static bool is_in_first_half(struct pool_block *block) {
    struct pool_block *before = block, *after = block;
    while (before && after) {
        before = RB_PREV(address_tree, NULL, before);
        after = RB_NEXT(address_tree, NULL, after);
    }
    return !before;
}

static void move(struct pool_block *block, struct region *to) {
    RB_REMOVE(address_tree, &block->region->blocks, block);
    block->region->block_count--;
    RB_INSERT(address_tree, &to->blocks, block);
    block->region = to;
    to->block_count++;
}

bool region_split(struct idle_store *store, struct pool_block *block) {
    struct region *region = block->region, *made = calloc(1, sizeof *made);
    struct pool_block *next, *end = NULL;
    uint64_t at = block->pointer;
    if (!made)
        return false;
    RB_REMOVE(base_tree, &store->regions->by_base, region);
    *made = *region;
    made->in_idle_regions = false;
    made->block_count = 0;
    RB_INIT(&made->blocks);
    if (is_in_first_half(block)) {
        made->size = at - region->base;
        region->base = at;
        region->size -= made->size;
        end = block;
        block = RB_MIN(address_tree, &region->blocks);
    } else {
        made->base = at;
        made->size = region->base + region->size - at;
        region->size -= made->size;
    }
    for (; block != end; block = next) {
        next = RB_NEXT(address_tree, NULL, block);
        move(block, made);
    }
    RB_INSERT(base_tree, &store->regions->by_base, region);
    RB_INSERT(base_tree, &store->regions->by_base, made);
    store->regions->count++;
    region_note_whole(store, region);
    region_note_whole(store, made);
    return true;
}

static void take_region_out(struct idle_store *store, struct region *region) {
    RB_REMOVE(base_tree, &store->regions->by_base, region);
    region_note_change(store, region);
}

void region_connect(struct idle_store *store, struct region *region) {
    lock_check_held(LOCK_POOL);
    struct region *next = RB_NEXT(base_tree, NULL, region);
    struct pool_block *block;
    if (!next || !region->reservation || next->reservation != region->reservation ||
        next->base != region->base + region->size)
        return;
    take_region_out(store, region);
    take_region_out(store, next);
    struct region *larger = region->block_count < next->block_count ? next : region;
    struct region *other = larger == region ? next : region;
    while ((block = RB_MIN(address_tree, &other->blocks)))
        move(block, larger);
    larger->base = region->base;
    larger->size += other->size;
    RB_INSERT(base_tree, &store->regions->by_base, larger);
    store->regions->count--;
    free(other);
}

bool region_isolate(struct idle_store *store, struct pool_block *block) {
    struct pool_block *next = RB_NEXT(address_tree, NULL, block);
    return (!next || region_split(store, next)) &&
           (block->pointer == block->region->base || region_split(store, block));
}

void region_detach(struct idle_store *store, struct pool_block *block) {
    RB_REMOVE(base_tree, &store->regions->by_base, block->region);
    store->regions->count--;
}

void region_return(struct idle_store *store, struct pool_block *block) {
    RB_INSERT(base_tree, &store->regions->by_base, block->region);
    store->regions->count++;
}

void region_destroy(struct pool_block *block) {
    free(block->region);
    block->region = NULL;
}

struct region *region_after(const struct idle_store *store, struct region *region) {
    return region ? RB_NEXT(base_tree, NULL, region) : RB_MIN(base_tree, &store->regions->by_base);
}

bool region_has_live(struct region *region) {
    struct pool_block *block;
    RB_FOREACH (block, address_tree, &region->blocks)
        if (block->state != BLOCK_IDLE && block->state != BLOCK_DEFERRED)
            return true;
    return false;
}

struct region *region_without_live(struct idle_store *store) {
    struct region *region;
    RB_FOREACH (region, base_tree, &store->regions->by_base)
        if (!region->reservation && !region_has_live(region))
            return region;
    return NULL;
}

/* --- for reports and tests --- */

static bool one_is_valid(struct regions *regions, struct region *region, struct idle_store *sums) {
    struct pool_block *block, *previous = NULL;
    uint64_t at = region->base;
    size_t count = 0;
    RB_FOREACH (block, address_tree, &region->blocks) {
        bool idle = is_idle(block);
        if (block->pointer != at || block->region != region ||
            (idle && previous && are_one(block, previous)) ||
            (idle && !region_is_in_place(regions, block)))
            return false;
        at += block->size;
        sums->count += idle;
        sums->bytes += idle ? block->size : 0;
        sums->stranded += idle ? block->size - region_releasable(block) : 0;
        count++;
        previous = block;
    }
    const struct pool_block *first = RB_MIN(address_tree, &region->blocks);
    bool whole = count == 1 && is_idle(first) && !first->bar;
    return at == region->base + region->size && count == region->block_count &&
           region->in_idle_regions == (whole && !region->tainted);
}

bool region_is_valid(const struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct idle_store sums = {.count = 0};
    struct region *region;
    size_t count = 0, tainted = 0;
    struct pool_block *block;
    RB_FOREACH (region, base_tree, &store->regions->by_base) {
        if (!one_is_valid(store->regions, region, &sums))
            return false;
        count++;
        RB_FOREACH (block, address_tree, &region->blocks)
            tainted += is_idle(block) && (region->tainted || block->bar);
    }
    return count == store->regions->count && sums.count == store->count &&
           sums.stranded == store->stranded && sums.bytes == store->bytes &&
           region_count_kept(store->regions) + tainted == store->count &&
           region_notes_agree(store->regions);
}
