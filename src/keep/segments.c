/* Regions in the manner of PyTorch's CUDACachingAllocator, which calls them segments: requests of
 * up to 1 MiB have regions of their own, and both kinds are cut and merged (keep/region.h).
 *
 * Kept of its origin: the two kinds, best fit by size and then by address, when a block is cut,
 * neighbours merged at once. Different: a block is also cut when the waste would exceed the bound,
 * there is no order by streams, and a request that nothing else can serve may have memory of the
 * other kind. */
#include "keep/region.h"

static const size_t most_left = 1 << 20; /* what a block for a large one may keep beyond it */

static size_t rest(const struct pool_block *block, const struct fit *fit) {
    lock_check_held(LOCK_POOL);
    size_t more = block->size - fit->size;
    bool small = fit->size <= REGION_SMALL_MOST;
    return small || more > most_left || more > fit->surplus ? more : 0;
}

const struct keeper keeper_segments = {REGION_KEEPER,       .open = region_open_kinds,
                                       .take = region_take, .fits = region_fits,
                                       .rest = rest,        .victim = region_victim};
