/* Regions in the manner of PyTorch's expandable segments: of mapped memory (keep/mapped.c), but
 * with requests of up to 1 MiB in reservations of their own, as keep/segments.c has them in
 * regions.
 *
 * Kept of its origin: the two kinds, best fit by size and then by address, where the block at the
 * end counts as being as large as it can grow, cutting from 512 bytes on, neighbours merged at
 * once. Different: there is no order by streams, and a request that nothing else can serve may have
 * memory of the other kind. */
#include "keep/region.h"

static bool is_small(size_t size) {
    return size <= SEGMENTS_SMALL_MOST;
}

static bool open_store(struct idle_store *store) {
    bool opened = region_open(store);
    if (opened)
        store->regions->small_most = SEGMENTS_SMALL_MOST;
    return opened;
}

static bool fits(const struct pool_block *block, size_t size) {
    lock_check_held(LOCK_POOL);
    return block->region->small == is_small(size);
}

static struct pool_block *take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how) {
    lock_check_held(LOCK_POOL);
    bool small = is_small(fit->size);
    struct pool_block *block = region_fit_inside(store, small, fit->size);
    if (!block && fit->last)
        block = region_fit_inside(store, !small, fit->size);
    if (block)
        region_take_out(store, site, block, how);
    return block;
}

static size_t rest(const struct pool_block *block, const struct fit *fit) {
    return block->size - fit->size;
}

/* All of it, or whole chunks of it. */
static struct pool_block *victim(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct pool_block *surplus = region_surplus(store, NULL, 0);
    return surplus ? surplus : region_largest_releasable(store, false);
}

const struct keeper keeper_expandable = {
    .cuts = true,
    .open = open_store,
    .close = region_close,
    .round = region_round,
    .take = take,
    .fits = fits,
    .rest = rest,
    .give = region_give,
    .remove = region_remove,
    .surplus = region_surplus,
    .victim = victim,
    .largest = region_largest,
    .is_valid = region_is_valid,
};
