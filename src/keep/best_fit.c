/* Regions in the manner of TensorFlow's best-fit with coalescing: best fit with splitting,
 * immediate coalescing, 21 bins from 256 B to 512 MiB (keep/region.h).
 *
 * Kept of its origin: all of that, and wholly idle regions given up before an allocation fails.
 * Different: a block is also cut when the waste would exceed the bound. */
#include "keep/region.h"

/* A block is cut when it is twice as large as asked or exceeds it by this. */
static const size_t largest_slack = 128 << 20;

static struct pool_block *take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how) {
    lock_check_held(LOCK_POOL);
    return region_take(store, site, fit, false, how);
}

static size_t rest(const struct pool_block *block, const struct fit *fit) {
    size_t more = block->size - fit->size;
    return block->size >= 2 * fit->size || more >= largest_slack || more > fit->surplus ? more : 0;
}

const struct keeper keeper_best_fit = {
    .cuts = true,
    .open = region_open,
    .close = region_close,
    .round = region_round,
    .take = take,
    .rest = rest,
    .give = region_give,
    .remove = region_remove,
    .surplus = region_surplus,
    .victim = region_victim,
    .largest = region_largest,
    .is_valid = region_is_valid,
};
