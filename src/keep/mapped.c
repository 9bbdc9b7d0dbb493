/* Regions of chunks mapped into reservations, each of which grows at its end (keep/region.h,
 * blocks/reservation.h): best fit, cut exactly, and given up chunk by chunk.
 *
 * keeper_expandable is in the manner of PyTorch's expandable segments. Kept of its origin: requests
 * of up to 1 MiB in reservations of their own, best fit by size and then by address, where the
 * block at the end counts as being as large as it can grow, cutting from 512 bytes on, neighbours
 * merged at once. Different: there is no order by streams, and a request that nothing else can
 * serve may have memory of the other kind. */
#include "keep/region.h"

static size_t rest(const struct pool_block *block, const struct fit *fit) {
    lock_check_held(LOCK_POOL);
    return block->size - fit->size;
}

/* All of it, or whole chunks of it. */
static struct pool_block *victim(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct pool_block *surplus = region_surplus(store, NULL, 0);
    return surplus ? surplus : region_largest_releasable(store, false);
}

const struct keeper keeper_mapped = {REGION_KEEPER, .open = region_open, .take = region_take_inside,
                                     .rest = rest, .victim = victim};

const struct keeper keeper_expandable = {
    REGION_KEEPER, .open = region_open_kinds, .take = region_take_inside, .fits = region_fits,
    .rest = rest,  .victim = victim};
