/* Where idle blocks of regions are kept and found: in bins by their sizes. */
#include "keep/region_bins.h"
#include "base/sizes.h"

static int compare_size(const struct pool_block *one, const struct pool_block *other) {
    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    if (one->pointer != other->pointer)
        return one->pointer < other->pointer ? -1 : 1;
    return 0;
}

static int compare_region_size(const struct region *one, const struct region *other) {
    if (one->size != other->size)
        return one->size < other->size ? -1 : 1;
    return one->base < other->base ? -1 : one->base > other->base;
}

#define UNUSED __attribute__((unused))
RB_GENERATE_INTERNAL(size_tree, pool_block, by_size, compare_size, static UNUSED)
RB_GENERATE_INTERNAL(region_size_tree, region, by_size, compare_region_size, static UNUSED)

/* The block of a region that has just one. */
static struct pool_block *only_block(const struct region *region) {
    return RB_ROOT(&region->blocks);
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

size_t region_releasable(const struct pool_block *block) {
    const struct region *region = block->region;
    if (!region->reservation)
        return region_is_whole(block) ? block->size : 0;
    return block->size < ROUND_PAGE
               ? 0
               : reservation_whole(region->reservation, block->pointer, block->size).bytes;
}

void region_give(struct idle_store *store, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct region *region = block->region;
    store->count++;
    store->bytes += block->size;
    size_t releasable = region_releasable(block);
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
    store->stranded -= block->size - (block->releasable ? region_releasable(block) : 0);
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

void region_note_whole(struct idle_store *store, struct region *region) {
    struct pool_block *first = only_block(region);
    bool whole = region->block_count == 1 && first->state == BLOCK_IDLE && !region->tainted &&
                 !first->bar && RB_FIND(size_tree, bin_of(store->regions, first), first) == first;
    if (whole && !region->in_idle_regions)
        RB_INSERT(region_size_tree, &store->regions->idle_regions, region);
    region->in_idle_regions = whole;
}

void region_note_change(struct idle_store *store, struct region *region) {
    if (region->in_idle_regions)
        RB_REMOVE(region_size_tree, &store->regions->idle_regions, region);
    region->in_idle_regions = false;
}

/* --- what serves a request --- */

/* The smallest idle block, the first of these by address, of at least that size, of small regions
 * or of the others. NULL: there is none. */
static struct pool_block *find(struct idle_store *store, bool small, size_t size) {
    struct size_tree *bins = bins_for(store->regions, small);
    struct pool_block least = {.size = size}, *found = NULL;
    for (int bin = bin_number(size); !found && bin < REGION_BINS; bin++)
        found = RB_NFIND(size_tree, &bins[bin], &least);
    return found;
}

/* The one after it in that order, or NULL. */
static struct pool_block *next_larger(struct idle_store *store, struct pool_block *block) {
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

/* Such a block, where the one at the end of what is mapped in a reservation comes after all others,
 * as it is as large as it can grow: cut before others, it would be missing to the request that it
 * could have grown for. */
static struct pool_block *find_inside(struct idle_store *store, bool small, size_t size) {
    struct pool_block *block = find(store, small, size), *other = block;
    while (other && is_at_end(other))
        other = next_larger(store, other);
    return other ? other : block;
}

/* Takes out what `finds` tells of the request's kind; of the other one where nothing else serves.
 */
static struct pool_block *take(struct idle_store *store, const struct site *site,
                               const struct fit *fit, unsigned *how,
                               struct pool_block *(*finds)(struct idle_store *, bool, size_t)) {
    bool small = fit->size <= store->regions->small_most;
    struct pool_block *block = finds(store, small, fit->size);
    if (!block && fit->last)
        block = finds(store, !small, fit->size);
    if (!block)
        return NULL;
    *how = TAKEN_TO_CUT | (block->site != site ? TAKEN_STOLEN : 0);
    region_remove(store, block);
    block->identity = 0;
    return block;
}

struct pool_block *region_take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how) {
    lock_check_held(LOCK_POOL);
    return take(store, site, fit, how, find);
}

struct pool_block *region_take_inside(struct idle_store *store, struct site *site,
                                      const struct fit *fit, unsigned *how) {
    lock_check_held(LOCK_POOL);
    return take(store, site, fit, how, find_inside);
}

bool region_fits(const struct idle_store *store, const struct pool_block *block, size_t size) {
    lock_check_held(LOCK_POOL);
    return block->region->small == (size <= store->regions->small_most);
}

/* --- what is given up --- */

struct pool_block *region_victim(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct region *region = RB_MAX(region_size_tree, &store->regions->condemned);
    if (!region)
        region = RB_MAX(region_size_tree, &store->regions->idle_regions);
    return region ? only_block(region) : NULL;
}

struct pool_block *region_surplus(struct idle_store *store, struct site *site, size_t keep) {
    lock_check_held(LOCK_POOL);
    struct region *condemned = RB_MAX(region_size_tree, &store->regions->condemned);
    (void)site;
    (void)keep;
    return condemned ? only_block(condemned) : RB_MAX(size_tree, &store->regions->barred);
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

bool region_is_in_place(struct regions *regions, struct pool_block *block) {
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

static size_t count_bins(struct size_tree *bins) {
    struct pool_block *block;
    size_t count = 0;
    for (int bin = 0; bin < REGION_BINS; bin++)
        RB_FOREACH (block, size_tree, &bins[bin])
            count++;
    return count;
}

size_t region_count_kept(struct regions *regions) {
    return count_bins(regions->bins) + count_bins(regions->small_bins);
}

bool region_notes_agree(struct regions *regions) {
    struct region *region;
    RB_FOREACH (region, region_size_tree, &regions->idle_regions)
        if (!region->in_idle_regions)
            return false;
    return true;
}
