/* The site policy: how idle blocks of one context are kept and found.
 *
 * A freed block stays with the site that allocated it last and serves that site again first; on a
 * miss it may serve another. Knows no CUDA call, no environment and no lock: its caller holds one.
 * Every operation is O(log n) in the idle blocks of the context. */
#ifndef POOLCUDA_POLICY_SITE_H
#define POOLCUDA_POLICY_SITE_H

#include "pool/block.h"

#include <stdbool.h>
#include <stddef.h>

void site_idle_init(struct idle_blocks *idle);

/* What a block must be to serve a request. */
struct fit {
    size_t bytes; /* the request */
    size_t size;  /* the same, rounded: the least size of a block */
    double ratio; /* by which a block may be larger than the request, both rounded or both not */
    uint64_t surplus; /* bytes by which it may be larger than `size` */
};

/* Takes out the best-fitting idle block for `site`: the smallest that fits (lowest address first),
 * among the site's own, then with `steal` among all. NULL if none does; *stolen tells whose it was.
 */
struct pool_block *site_take(struct idle_blocks *idle, struct site *site, const struct fit *fit,
                             bool steal, bool *stolen);

/* Keeps a block, which belongs to block->site. Removes one, wherever it is kept. */
void site_give(struct idle_blocks *idle, struct pool_block *block);
void site_remove(struct idle_blocks *idle, struct pool_block *block);

/* The block that has been idle longest of a site that keeps more than `keep` (0: no limit), NULL if
 * it does not. */
struct pool_block *site_surplus(struct site *site, size_t keep);

/* The largest idle block, NULL if there is none: the first to be given up. */
struct pool_block *site_largest(struct idle_blocks *idle);

/* Whether trees, lists and sums agree. Walks everything: for tests. */
bool site_is_valid(const struct idle_blocks *idle);

#endif
