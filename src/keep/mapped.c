/* Regions of chunks mapped into reservations, each of which grows at its end (keep/region.h,
 * blocks/reservation.h): best fit, cut exactly, and given up chunk by chunk. */
#include "keep/region.h"

static struct pool_block *take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = region_fit_inside(store, false, fit->size);
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

const struct keeper keeper_mapped = {
    .cuts = true,
    .open = region_open,
    .close = region_close,
    .round = region_round,
    .take = take,
    .rest = rest,
    .give = region_give,
    .remove = region_remove,
    .surplus = region_surplus,
    .victim = victim,
    .largest = region_largest,
    .is_valid = region_is_valid,
};
