#include "keep/region.h"

#include "round.h"

#include <stdlib.h>

/* A block is cut when it is twice as large as asked or exceeds it by this. */
static const size_t largest_slack = 128 << 20;

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

static bool is_of_whole_pages(const struct pool_block *block) {
    return block->pointer % ROUND_PAGE == 0 && block->size % ROUND_PAGE == 0;
}

/* Whether the driver could have an idle block back: whole pages can be unmapped, all of a region be
 * freed. */
static bool is_releasable(const struct pool_block *block) {
    return region_is_whole(block) ||
           (block->region->reservation && !block->region->tainted && is_of_whole_pages(block));
}

static void insert(struct idle_store *store, struct pool_block *block) {
    struct region *region = block->region;
    store->count++;
    store->bytes += block->size;
    block->releasable = is_releasable(block);
    store->stranded += block->releasable ? 0 : block->size;
    if (region->tainted) {
        if (region_is_whole(block)) {
            RB_INSERT(region_size_tree, &store->regions->condemned, region);
            region->condemned = true;
        }
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
    store->stranded -= block->releasable ? 0 : block->size;
    if (region->tainted) {
        if (region->condemned)
            RB_REMOVE(region_size_tree, &store->regions->condemned, region);
        region->condemned = false;
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

static struct pool_block *find(struct regions *regions, bool small, size_t size) {
    struct size_tree *bins = bins_for(regions, small);
    struct pool_block least = {.size = size}, *found = NULL;
    for (int bin = bin_number(size); !found && bin < REGION_BINS; bin++)
        found = RB_NFIND(size_tree, &bins[bin], &least);
    return found;
}

/* --- cutting and merging --- */

static size_t rest(const struct pool_block *block, const struct fit *fit) {
    size_t more = block->size - fit->size;
    return block->size >= 2 * fit->size || more >= largest_slack || more > fit->surplus ? more : 0;
}

void region_cut(struct idle_store *store, struct pool_block *block, struct pool_block *rest) {
    lock_check_held(LOCK_POOL);
    rest->region = block->region;
    RB_INSERT(address_tree, &block->region->blocks, rest);
    block->region->block_count++;
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

/* Whether two idle blocks, side by side in one region, are to be one. */
static bool belong_together(const struct pool_block *block, const struct pool_block *next) {
    if (!is_idle(block) || !is_idle(next))
        return false;
    if (!block->region->reservation)
        return true;
    bool whole = is_of_whole_pages(block);
    return whole == is_of_whole_pages(next) &&
           (whole || block->pointer / ROUND_PAGE == next->pointer / ROUND_PAGE);
}

/* A block that completes its page is merged with it before what is around is looked at again. */
struct pool_block *region_join(struct idle_store *store, struct pool_block **block) {
    lock_check_held(LOCK_POOL);
    struct pool_block *before, *after = RB_NEXT(address_tree, NULL, *block);
    if (belong_together(*block, after)) {
        region_remove(store, after);
    } else if (belong_together(before = RB_PREV(address_tree, NULL, *block), *block)) {
        region_remove(store, before);
        after = *block;
        *block = before;
    } else {
        return NULL;
    }
    region_leave(after);
    return after;
}

struct pool_block *region_take(struct idle_store *store, const struct site *site,
                               const struct fit *fit, bool small, size_t most, unsigned *how) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = find(store->regions, small, fit->size);
    if (!block || block->size > most)
        return NULL;
    *how = TAKEN_TO_CUT | (block->site != site ? TAKEN_STOLEN : 0);
    region_remove(store, block);
    block->identity = 0;
    return block;
}

static struct pool_block *take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how) {
    lock_check_held(LOCK_POOL);
    return region_take(store, site, fit, false, SIZE_MAX, how);
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

struct pool_block *region_find_mapped(struct idle_store *store, size_t least) {
    struct pool_block *block, key = {.size = least};
    for (struct size_tree *bin = store->regions->bins + bin_number(least);
         bin < store->regions->bins + REGION_BINS; bin++)
        for (block = RB_NFIND(size_tree, bin, &key); block; block = RB_NEXT(size_tree, bin, block))
            if (block->region->reservation)
                return block;
    return NULL;
}

static struct pool_block *largest_mapped(struct idle_store *store, size_t least) {
    struct pool_block *block;
    for (struct size_tree *bin = store->regions->bins + REGION_BINS; bin-- > store->regions->bins;)
        for (block = RB_MAX(size_tree, bin); block && block->size >= least;
             block = RB_PREV(size_tree, bin, block))
            if (block->region->reservation)
                return block;
    return NULL;
}

/* To be called when a region has other blocks than before: it may be wholly idle, or no more. */
static void note_whole(struct idle_store *store, struct region *region) {
    struct pool_block *first = RB_MIN(address_tree, &region->blocks);
    bool whole = region->block_count == 1 && is_idle(first) && !region->tainted &&
                 RB_FIND(size_tree, bin_of(store->regions, first), first) == first;
    if (whole && !region->in_idle_regions)
        RB_INSERT(region_size_tree, &store->regions->idle_regions, region);
    region->in_idle_regions = whole;
}

/* Makes all blocks from `block` on a region of their own. */
static bool split_region(struct idle_store *store, struct pool_block *block) {
    struct region *region = block->region, *rest = calloc(1, sizeof *rest);
    struct pool_block *next;
    if (!rest)
        return false;
    *rest = (struct region){.base = block->pointer,
                            .size = region->base + region->size - block->pointer,
                            .reservation = region->reservation,
                            .small = region->small,
                            .tainted = region->tainted};
    for (; block; block = next) {
        next = RB_NEXT(address_tree, &region->blocks, block);
        RB_REMOVE(address_tree, &region->blocks, block);
        RB_INSERT(address_tree, &rest->blocks, block);
        block->region = rest;
        region->block_count--;
        rest->block_count++;
    }
    region->size -= rest->size;
    RB_INSERT(base_tree, &store->regions->by_base, rest);
    store->regions->count++;
    note_whole(store, region);
    note_whole(store, rest);
    return true;
}

bool region_isolate(struct idle_store *store, struct pool_block *block) {
    struct pool_block *next = RB_NEXT(address_tree, NULL, block);
    return (!next || split_region(store, next)) &&
           (block->pointer == block->region->base || split_region(store, block));
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

static bool has_live(struct region *region) {
    struct pool_block *block;
    RB_FOREACH (block, address_tree, &region->blocks)
        if (block->state != BLOCK_IDLE && block->state != BLOCK_DEFERRED)
            return true;
    return false;
}

struct region *region_without_live(struct idle_store *store) {
    struct region *region;
    RB_FOREACH (region, base_tree, &store->regions->by_base)
        if (!region->reservation && !has_live(region))
            return region;
    return NULL;
}

struct pool_block *region_surplus(struct idle_store *store, struct site *site, size_t keep) {
    lock_check_held(LOCK_POOL);
    struct region *condemned = RB_MAX(region_size_tree, &store->regions->condemned);
    (void)site;
    (void)keep;
    return condemned ? RB_MIN(address_tree, &condemned->blocks) : NULL;
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

static bool one_is_valid(struct regions *regions, struct region *region, struct idle_store *sums) {
    struct pool_block *block, *previous = NULL;
    uint64_t at = region->base;
    size_t count = 0;
    RB_FOREACH (block, address_tree, &region->blocks) {
        bool idle = is_idle(block);
        if (block->pointer != at || block->region != region || belong_together(previous, block))
            return false;
        if (idle && !region->tainted && RB_FIND(size_tree, bin_of(regions, block), block) != block)
            return false;
        at += block->size;
        sums->count += idle;
        sums->bytes += idle ? block->size : 0;
        sums->stranded += idle && !is_releasable(block) ? block->size : 0;
        count++;
        previous = block;
    }
    bool whole = count == 1 && is_idle(RB_MIN(address_tree, &region->blocks));
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
        if (region->tainted)
            RB_FOREACH (block, address_tree, &region->blocks)
                tainted += is_idle(block);
    }
    RB_FOREACH (region, region_size_tree, &store->regions->idle_regions)
        idle_regions += !region->in_idle_regions;
    return count == store->regions->count && sums.count == store->count &&
           sums.stranded == store->stranded && sums.bytes == store->bytes &&
           binned + tainted == store->count && !idle_regions;
}

/* --- the keepers: regions alone, in TensorFlow's manner, and of mapped pages ---
 *
 * TensorFlow's best-fit with coalescing: best fit with splitting, immediate coalescing, 21 bins
 * from 256 B to 512 MiB. Kept of its origin: all of that, and wholly idle regions given up before
 * an allocation fails. Different: a block is also cut when the waste would exceed the bound. */

/* Pieces are aligned as the driver's allocations are: textures count on 512 bytes. */
static size_t round_to_unit(size_t bytes) {
    return round_up(bytes, ROUND_SMALL);
}

const struct keeper keeper_regions = {
    .cuts = true,
    .open = region_open,
    .close = region_close,
    .round = round_to_unit,
    .take = take,
    .rest = rest,
    .give = region_give,
    .remove = region_remove,
    .surplus = region_surplus,
    .victim = region_victim,
    .largest = region_largest,
    .is_valid = region_is_valid,
};

/* Whole pages are cut from whole pages; what is smaller than a page shares one. */
static struct pool_block *take_mapped(struct idle_store *store, struct site *site,
                                      const struct fit *fit, unsigned *how) {
    lock_check_held(LOCK_POOL);
    size_t most = fit->size < ROUND_PAGE ? ROUND_PAGE : SIZE_MAX;
    return region_take(store, site, fit, false, most, how);
}

static size_t rest_mapped(const struct pool_block *block, const struct fit *fit) {
    return block->size - fit->size;
}

static struct pool_block *victim_mapped(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = largest_mapped(store, ROUND_PAGE), *whole = region_victim(store);
    if (whole && (!block || whole->size > block->size))
        return whole;
    return block && region_isolate(store, block) ? block : NULL;
}

const struct keeper keeper_mapped = {
    .cuts = true,
    .open = region_open,
    .close = region_close,
    .round = round_physical,
    .take = take_mapped,
    .rest = rest_mapped,
    .give = region_give,
    .remove = region_remove,
    .surplus = region_surplus,
    .victim = victim_mapped,
    .largest = region_largest,
    .is_valid = region_is_valid,
};
