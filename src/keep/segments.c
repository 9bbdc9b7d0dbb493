/* Regions in the manner of PyTorch's CUDACachingAllocator, which calls them segments: requests of
 * up to 1 MiB have regions of their own, and both kinds are cut and merged (keep/region.h).
 *
 * Kept of its origin: the two kinds, best fit by size and then by address, when a block is cut,
 * neighbours merged at once. Different: a block is also cut when the waste would exceed the bound,
 * there is no order by streams, and a request that nothing else can serve may have memory of the
 * other kind. */
#include "keep/region.h"

static const size_t most_left = 1 << 20; /* what a block for a large one may keep beyond it */

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
    struct pool_block *block = region_take(store, site, fit, small, how);
    return block || !fit->last ? block : region_take(store, site, fit, !small, how);
}

static size_t rest(const struct pool_block *block, const struct fit *fit) {
    size_t more = block->size - fit->size;
    return is_small(fit->size) || more > most_left || more > fit->surplus ? more : 0;
}

const struct keeper keeper_segments = {
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
    .victim = region_victim,
    .largest = region_largest,
    .is_valid = region_is_valid,
};
