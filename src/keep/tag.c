/* Futhark's tagged free list, as it was in 2018: a site keeps the one block that it freed last and
 * is served by it if `request <= size <= ratio * request`; a block that does not serve is given up
 * at once; no site is served by another's block.
 *
 * Kept of its origin: all of that, with the caller's address as the tag. Different: the physical
 * size (2 MiB pages, 512 bytes) is what is compared, waste is bounded, and a misfit is given up
 * only when that needs no waiting, else at the next free. */
#include "base/sizes.h"
#include "keep/site.h"

static struct pool_block *take(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = site_find(site, fit->size);
    if (!block || (double)block->size > fit->ratio * (double)fit->size ||
        block->size - fit->size > fit->surplus)
        return NULL;
    *how = 0;
    site_remove(store, block);
    return block;
}

static struct pool_block *surplus(struct idle_store *store, struct site *site, size_t keep) {
    lock_check_held(LOCK_POOL);
    (void)keep; /* always one */
    return site_surplus(store, site, 1);
}

static struct pool_block *misfit(struct site *site, size_t size) {
    lock_check_held(LOCK_POOL);
    (void)size;
    return site_oldest(site);
}

const struct keeper keeper_tag = {
    .own_site = true,
    .round = round_physical,
    .take = take,
    .give = site_give,
    .remove = site_remove,
    .surplus = surplus,
    .misfit = misfit,
    .victim = site_largest,
    .largest = site_largest,
    .is_valid = site_is_valid,
};
