/* Idle blocks by size, and by size within each site: what the keepers `site` and `tag` share.
 * Every operation is O(log n) in the idle blocks of the store, but for site_oldest and, where it
 * finds a surplus, site_surplus: O(n) in those of the site, of which it keeps few. */
#ifndef POOLCUDA_KEEP_SITE_H
#define POOLCUDA_KEEP_SITE_H

#include "keep/keeper.h"

/* Takes the block that serves best: see struct keeper. */
struct pool_block *site_take(struct idle_store *store, struct site *site, const struct fit *fit,
                             unsigned *how);
/* site_fit.c: see serves, most and reach of struct keeper. Only the smallest block of sufficient
 * size is looked at: in every order that matters the others exceed the request by more. */
bool site_fits(const struct pool_block *block, const struct fit *fit);
size_t site_most(const struct fit *fit);
size_t site_reach(const struct fit *fit);
/* The smallest block of the site that is at least `size`. NULL: none. */
struct pool_block *site_find(struct site *site, size_t size);
void site_give(struct idle_store *store, struct pool_block *block);
void site_remove(struct idle_store *store, struct pool_block *block);
/* The site's block that has been idle longest. NULL: none is idle. Lock held. */
struct pool_block *site_oldest(struct site *site);
/* An idle block of a site that keeps more than `keep` (0: no limit), else NULL. */
struct pool_block *site_surplus(struct idle_store *store, struct site *site, size_t keep);
struct pool_block *site_largest(struct idle_store *store);
bool site_is_valid(const struct idle_store *store);

#endif
