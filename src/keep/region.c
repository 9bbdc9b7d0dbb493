#include "keep/region.h"

#include "round.h"

#include <stdlib.h>

static int compare_size(const struct pool_block *one, const struct pool_block *other) {
    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    if (one->pointer != other->pointer)
        return one->pointer < other->pointer ? -1 : 1;
    return 0;
}

static int compare_address(const struct pool_block *one, const struct pool_block *other) {
    return one->pointer < other->pointer ? -1 : one->pointer > other->pointer;
}

static int compare_base(const struct region *one, const struct region *other) {
    return one->base < other->base ? -1 : one->base > other->base;
}

static int compare_region_size(const struct region *one, const struct region *other) {
    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    return compare_base(one, other);
}

#define UNUSED __attribute__((unused))
RB_GENERATE_INTERNAL(size_tree, pool_block, by_size, compare_size, static UNUSED)
RB_GENERATE_INTERNAL(address_tree, pool_block, by_address, compare_address, static UNUSED)
RB_GENERATE_INTERNAL(base_tree, region, by_base, compare_base, static UNUSED)
RB_GENERATE_INTERNAL(region_size_tree, region, by_size, compare_region_size, static UNUSED)

bool region_open(struct idle_store *store) {
    store->regions = calloc(1, sizeof *store->regions);
    return store->regions;
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

bool region_is_whole(const struct pool_block *block) {
    return block->region->block_count == 1;
}

static int bin_number(size_t size) {
    int bin = 63 - __builtin_clzll(size | REGION_SMALLEST_BIN) -
              (63 - __builtin_clzll(REGION_SMALLEST_BIN));
    return bin < REGION_BINS ? bin : REGION_BINS - 1;
}

static struct size_tree *bins_for(struct regions *regions, bool small) {
    return small ? regions->small_bins : regions->bins;
}

static struct size_tree *bin_of(struct regions *regions, const struct pool_block *block) {
    return &bins_for(regions, block->region->small)[bin_number(block->size)];
}

/* --- bins --- */

/* How much of an idle block the driver could have back: whole chunks can be unmapped, all of a
 * region be freed. What it is for a block in a bin does not change. */
static size_t releasable_bytes(const struct pool_block *block) {
    const struct region *region = block->region;
    if (!region->reservation)
        return region_is_whole(block) ? block->size : 0;
    return block->size < ROUND_PAGE
               ? 0
               : reservation_whole(region->reservation, block->pointer, block->size).bytes;
}

static void insert(struct idle_store *store, struct pool_block *block) {
    struct region *region = block->region;
    store->count++;
    store->bytes += block->size;
    size_t releasable = releasable_bytes(block);
    block->releasable = releasable > 0;
    store->stranded += block->size - releasable;
    if (region->tainted) {
        if (region_is_whole(block)) {
            RB_INSERT(region_size_tree, &store->regions->condemned, region);
            region->condemned = true;
        }
        return;
    }
    if (block->bar) {
        if (block->releasable)
            RB_INSERT(size_tree, &store->regions->barred, block);
        return;
    }
    RB_INSERT(size_tree, bin_of(store->regions, block), block);
    if (region_is_whole(block)) {
        RB_INSERT(region_size_tree, &store->regions->idle_regions, region);
        region->in_idle_regions = true;
    }
}

void region_remove(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct region *region = block->region;
    store->count--;
    store->bytes -= block->size;
    store->stranded -= block->size - (block->releasable ? releasable_bytes(block) : 0);
    if (region->tainted) {
        if (region->condemned)
            RB_REMOVE(region_size_tree, &store->regions->condemned, region);
        region->condemned = false;
        return;
    }
    if (block->bar) {
        if (block->releasable)
            RB_REMOVE(size_tree, &store->regions->barred, block);
        return;
    }
    RB_REMOVE(size_tree, bin_of(store->regions, block), block);
    if (region->in_idle_regions) {
        RB_REMOVE(region_size_tree, &store->regions->idle_regions, region);
        region->in_idle_regions = false;
    }
}

void region_give(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    insert(store, block);
}

struct pool_block *region_fit(struct idle_store *store, bool small, size_t size) {
    struct size_tree *bins = bins_for(store->regions, small);
    struct pool_block least = {.size = size}, *found = NULL;
    for (int bin = bin_number(size); !found && bin < REGION_BINS; bin++)
        found = RB_NFIND(size_tree, &bins[bin], &least);
    return found;
}

struct pool_block *region_next_fit(struct idle_store *store, struct pool_block *block) {
    struct size_tree *bins = bins_for(store->regions, block->region->small);
    int bin = bin_number(block->size);
    struct pool_block *found = RB_NEXT(size_tree, NULL, block);
    while (!found && ++bin < REGION_BINS)
        found = RB_MIN(size_tree, &bins[bin]);
    return found;
}

/* Whether the block is the one that grows when more is mapped. */
static bool is_at_end(const struct pool_block *block) {
    const struct reservation *reservation = block->region->reservation;
    return reservation && block->pointer + block->size == reservation->end;
}

struct pool_block *region_fit_inside(struct idle_store *store, bool small, size_t size) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = region_fit(store, small, size), *other = block;
    while (other && is_at_end(other))
        other = region_next_fit(store, other);
    return other ? other : block;
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
    insert(store, rest);
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

void region_take_out(struct idle_store *store, const struct site *site, struct pool_block *block,
                     unsigned *how) {
    lock_check_held(LOCK_POOL);
    *how = TAKEN_TO_CUT | (block->site != site ? TAKEN_STOLEN : 0);
    region_remove(store, block);
    block->identity = 0;
}

struct pool_block *region_take(struct idle_store *store, const struct site *site,
                               const struct fit *fit, bool small, unsigned *how) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = region_fit(store, small, fit->size);
    if (block)
        region_take_out(store, site, block, how);
    return block;
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
            insert(store, block);
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

static struct pool_block *largest_releasable_of(struct size_tree *bins, bool mapped) {
    struct pool_block *block;
    for (struct size_tree *bin = bins + REGION_BINS; bin-- > bins;)
        for (block = RB_MAX(size_tree, bin); block; block = RB_PREV(size_tree, bin, block))
            if (block->releasable && (block->region->reservation || !mapped))
                return block;
    return NULL;
}

struct pool_block *region_largest_releasable(struct idle_store *store, bool mapped) {
    struct pool_block *block;
    if (store->bytes <= store->stranded)
        return NULL;
    block = largest_releasable_of(store->regions->bins, mapped);
    struct pool_block *small = largest_releasable_of(store->regions->small_bins, mapped);
    return !block || (small && small->size > block->size) ? small : block;
}

struct pool_block *region_largest_barred(struct idle_store *store, enum chunk_bar most) {
    struct pool_block *block = RB_MAX(size_tree, &store->regions->barred);
    while (block && block->bar > most)
        block = RB_PREV(size_tree, NULL, block);
    return block;
}

/* To be called when a region has other blocks than before: it may be wholly idle, or no more. */
static void note_whole(struct idle_store *store, struct region *region) {
    struct pool_block *first = RB_MIN(address_tree, &region->blocks);
    bool whole = region->block_count == 1 && is_idle(first) && !region->tainted && !first->bar &&
                 RB_FIND(size_tree, bin_of(store->regions, first), first) == first;
    if (whole && !region->in_idle_regions)
        RB_INSERT(region_size_tree, &store->regions->idle_regions, region);
    region->in_idle_regions = whole;
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
    note_whole(store, region);
    note_whole(store, made);
    return true;
}

/* A region's blocks or size are to change. */
static void take_region_out(struct idle_store *store, struct region *region) {
    RB_REMOVE(base_tree, &store->regions->by_base, region);
    if (region->in_idle_regions)
        RB_REMOVE(region_size_tree, &store->regions->idle_regions, region);
    region->in_idle_regions = false;
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

struct pool_block *region_victim(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct region *region = RB_MAX(region_size_tree, &store->regions->condemned);
    if (!region)
        region = RB_MAX(region_size_tree, &store->regions->idle_regions);
    return region ? RB_MIN(address_tree, &region->blocks) : NULL;
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

struct pool_block *region_surplus(struct idle_store *store, struct site *site, size_t keep) {
    lock_check_held(LOCK_POOL);
    struct region *condemned = RB_MAX(region_size_tree, &store->regions->condemned);
    (void)site;
    (void)keep;
    return condemned ? RB_MIN(address_tree, &condemned->blocks)
                     : RB_MAX(size_tree, &store->regions->barred);
}

/* --- for reports and tests --- */

static struct pool_block *largest_of(struct size_tree *bins) {
    struct pool_block *block = NULL;
    for (int bin = REGION_BINS - 1; bin >= 0 && !block; bin--)
        block = RB_MAX(size_tree, &bins[bin]);
    return block;
}

struct pool_block *region_largest(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = largest_of(store->regions->bins);
    struct pool_block *small = largest_of(store->regions->small_bins);
    return !block || (small && small->size > block->size) ? small : block;
}

/* Whether an idle block is kept where it belongs. */
static bool is_in_place(struct regions *regions, struct pool_block *block) {
    const struct region *region = block->region;
    uint64_t until;
    if (region->tainted)
        return true;
    if (region->reservation &&
        block->bar != reservation_bar(region->reservation, block->pointer, block->size, &until))
        return false;
    struct size_tree *tree = block->bar ? &regions->barred : bin_of(regions, block);
    return (block->bar && !block->releasable) || RB_FIND(size_tree, tree, block) == block;
}

static bool one_is_valid(struct regions *regions, struct region *region, struct idle_store *sums) {
    struct pool_block *block, *previous = NULL;
    uint64_t at = region->base;
    size_t count = 0;
    RB_FOREACH (block, address_tree, &region->blocks) {
        bool idle = is_idle(block);
        if (block->pointer != at || block->region != region ||
            (idle && previous && are_one(block, previous)) ||
            (idle && !is_in_place(regions, block)))
            return false;
        at += block->size;
        sums->count += idle;
        sums->bytes += idle ? block->size : 0;
        sums->stranded += idle ? block->size - releasable_bytes(block) : 0;
        count++;
        previous = block;
    }
    const struct pool_block *first = RB_MIN(address_tree, &region->blocks);
    bool whole = count == 1 && is_idle(first) && !first->bar;
    return at == region->base + region->size && count == region->block_count &&
           region->in_idle_regions == (whole && !region->tainted);
}

static size_t count_bins(struct size_tree *bins) {
    struct pool_block *block;
    size_t count = 0;
    for (int bin = 0; bin < REGION_BINS; bin++)
        RB_FOREACH (block, size_tree, &bins[bin])
            count++;
    return count;
}

bool region_is_valid(const struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct idle_store sums = {.count = 0};
    struct region *region;
    size_t count = 0, idle_regions = 0, tainted = 0;
    size_t binned = count_bins(store->regions->bins) + count_bins(store->regions->small_bins);
    struct pool_block *block;
    RB_FOREACH (region, base_tree, &store->regions->by_base) {
        if (!one_is_valid(store->regions, region, &sums))
            return false;
        count++;
        RB_FOREACH (block, address_tree, &region->blocks)
            tainted += is_idle(block) && (region->tainted || block->bar);
    }
    RB_FOREACH (region, region_size_tree, &store->regions->idle_regions)
        idle_regions += !region->in_idle_regions;
    return count == store->regions->count && sums.count == store->count &&
           sums.stranded == store->stranded && sums.bytes == store->bytes &&
           binned + tainted == store->count && !idle_regions;
}
