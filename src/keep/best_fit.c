/* Regions in the manner of TensorFlow's best-fit with coalescing: best fit with splitting,
 * immediate coalescing, 21 bins from 256 B to 512 MiB (keep/region.h).
 *
 * Kept of its origin: all of that, and wholly idle regions given up before an allocation fails.
 * Different: a block is also cut when the waste would exceed the bound, and to fit on a device that
 * has no room for regions to double on. */
#include "keep/region.h"

/* A block is cut when it is twice as large as asked or exceeds it by this. */
static const size_t largest_slack = 128 << 20;

static size_t rest(const struct pool_block *block, const struct fit *fit) {
    lock_check_held(LOCK_POOL);
    size_t more = block->size - fit->size;
    bool cut = block->size >= 2 * fit->size || more >= largest_slack || more > fit->surplus;
    return cut || block->region->among->scarce ? more : 0;
}

const struct keeper keeper_best_fit = {REGION_KEEPER, .open = region_open, .take = region_take,
                                       .rest = rest, .victim = region_victim};
