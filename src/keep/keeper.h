/* How idle memory is kept and found: the one interface behind which every way of doing so stands.
 *
 * A keeper decides which idle block serves a request (take), keeps what was freed (give), says what
 * goes back to the driver first (victim). It knows neither the
 * pool nor CUDA: where a block is to be cut or merged it says so, and the pool's ledger does it. */
#ifndef POOLCUDA_KEEP_KEEPER_H
#define POOLCUDA_KEEP_KEEPER_H

#include "base/lock.h"
#include "blocks/block.h"

#include <stdbool.h>
#include <stddef.h>

/* What a block must be to serve a request. */
struct fit {
    size_t bytes; /* of the request */
    size_t size;  /* of the request, rounded: the least size of a block */
    double ratio; /* by which a block may be larger than the request, both rounded or both not */
    uint64_t surplus; /* bytes by which it may be larger than `size` */
    uint64_t strict;  /* of these: what only a block of about the request's size may waste */
    bool steal;       /* blocks of other sites may serve as well */
    bool last;        /* nothing else will: a block that is kept for other requests may serve */
    bool little;      /* a block that wastes little of the surplus serves whatever the ratio */
    bool exact;       /* a block that suffices for `bytes`, unrounded, serves as well */
};

/* What is to be known of a block that was taken; 0: nothing. */
enum taken {
    TAKEN_STOLEN = 1 << 0, /* it was another site's */
    TAKEN_TO_CUT = 1 << 1  /* `rest` says by how much */
};

struct keeper {
    /* Blocks are cut from regions (keep/region.h): they need not be the driver's allocations. */
    bool cuts;

    /* Whether a block serves the site that freed it alone, or requests that round to its size
     * alone. */
    bool own_site, same_size;

    /* Whether freed memory goes back to the driver at once (which keeps it): nothing is worth
     * waiting for. */
    bool keeps_nothing;

    /* open makes what the keeper itself keeps in a new store; false without host memory. close
     * frees it, of any store, opened or not, whatever lies in it. NULL: nothing. Lock not needed.
     */
    bool (*open)(struct idle_store *store);
    void (*close)(struct idle_store *store);

    /* All below: lock held. */

    /* The size of the block that serves `bytes`; 0: too large to round. Lock not needed. */
    size_t (*round)(size_t bytes);

    /* Takes out an idle block that fits a request of `site`. NULL if none does. *how: bits of enum
     * taken. */
    struct pool_block *(*take)(struct idle_store *store, struct site *site, const struct fit *fit,
                               unsigned *how);

    /* Whether a block, idle or once it is, may serve a request of a size that it suffices for.
     * NULL: any may. */
    bool (*fits)(const struct idle_store *store, const struct pool_block *block, size_t size);

    /* Bytes of a block that was taken TO_CUT and are not worth keeping in it. */
    size_t (*rest)(const struct pool_block *block, const struct fit *fit);

    /* Takes out an idle block of just that size which the site itself has freed: none serves a
     * request better, so that threads may keep such blocks in caches of their own (pool/cache.h).
     * NULL if there is none; the member itself is NULL where that does not hold. */
    struct pool_block *(*take_same)(struct idle_store *store, struct site *site, size_t size);

    /* Where there is take_same: whether the block serves the request if it is the smallest
     * sufficient one, as each of just its size does, a size above which none does, and the size of
     * the smallest sufficient one in the store; SIZE_MAX: there is none. Lock not needed: a cache
     * that is alone may ask. */
    bool (*serves)(const struct pool_block *block, const struct fit *fit);
    size_t (*most)(const struct fit *fit);
    size_t (*least)(struct idle_store *store, size_t size);

    /* The largest size that may serve, to be asked of the driver for a site whose sizes only grow;
     * at least fit->size. NULL: just that. */
    size_t (*reach)(const struct fit *fit);

    /* Keeps a block, which belongs to block->site. Takes one out, wherever it is kept. */
    void (*give)(struct idle_store *store, struct pool_block *block);
    void (*remove)(struct idle_store *store, struct pool_block *block);

    /* A block that the keeper does not keep after a free of `site`: one beyond `keep` (0: no limit)
     * blocks of the site, say. NULL: none. */
    struct pool_block *(*surplus)(struct idle_store *store, struct site *site, size_t keep);

    /* A block that a request of `site` has found unfit and that is then given up. size: of the
     * request, if its site asks for less and less and what is held would now be more than ever
     * before; else 0. NULL: none; the member itself may be NULL. */
    struct pool_block *(*misfit)(struct site *site, size_t size);

    /* What to give up first, NULL if there is nothing: all of a driver allocation. */
    struct pool_block *(*victim)(struct idle_store *store);

    /* The largest idle block, NULL if there is none. */
    struct pool_block *(*largest)(struct idle_store *store);

    /* Whether all that belongs together agrees. Walks everything: for tests. */
    bool (*is_valid)(const struct idle_store *store);
};

extern const struct keeper keeper_site, keeper_tag, keeper_bins, keeper_best_fit, keeper_segments,
    keeper_mapped, keeper_expandable, keeper_none, keeper_host, keeper_managed;

#endif
