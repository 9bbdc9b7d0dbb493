/* How idle memory is kept and found: the one interface behind which every pool's way of doing so
 * stands.
 *
 * A policy decides which idle block serves a request (take), keeps what was freed (give), says what
 * goes back to the driver first (victim) and how its idle memory lies (usage). It knows no hook and
 * no environment, and calls CUDA only in functions that are called without the pool's lock, through
 * the driver struct: driver_pool.c and vmm.c do. */
#ifndef POOLCUDA_POLICY_POLICY_H
#define POOLCUDA_POLICY_POLICY_H

#include "pool/block.h"

#include <stdbool.h>
#include <stddef.h>

/* What a block must be to serve a request. */
struct fit {
    size_t bytes; /* of the request */
    size_t size;  /* of the request, rounded: the least size of a block */
    double ratio; /* by which a block may be larger than the request, both rounded or both not */
    uint64_t surplus; /* bytes by which it may be larger than `size` */
    bool steal;       /* blocks of other sites may serve as well */
};

/* How a store's idle memory lies. Fragmentation is (bytes - largest) / bytes. */
struct policy_usage {
    size_t blocks, bytes, largest;
};

struct pool;
struct request;

/* Memory that came from the driver. */
struct obtained {
    CUdeviceptr pointer;
    size_t size;
    struct reservation *reservation; /* vmm's, NULL elsewhere */
    bool stitched;                   /* of memory that was held already: nothing was allocated */
    bool in_driver_pool;             /* async: from the driver's stream-ordered pool */
};

/* Idle memory that is in no block, on its way to the driver. */
struct page {
    CUmemGenericAllocationHandle handle; /* vmm: of a page; async: the driver's pool */
    size_t bytes;                        /* async: that are to leave it */
    struct page *next;
};

struct policy {
    const char *name;

    /* Blocks are cut from regions (policy/region.h): they need not be the driver's allocations. */
    bool cuts;

    /* Whether a block serves the site that freed it alone, or requests that round to its size
     * alone. */
    bool own_site, same_size;

    /* Whether freed memory goes back to the driver at once (which keeps it): nothing is worth
     * waiting for. */
    bool keeps_nothing;

    /* open makes what the policy itself keeps in a new store; false without host memory. close
     * frees it, of any store, opened or not, whatever lies in it. NULL: nothing. Lock not needed.
     */
    bool (*open)(struct idle_store *store);
    void (*close)(struct idle_store *store);

    /* All below: lock held. */

    /* The size of the block that serves `bytes`; 0: too large to round. Lock not needed. */
    size_t (*round)(size_t bytes);

    /* Takes out an idle block that fits a request of `site`. NULL if none does. *stolen: it was
     * another site's. */
    struct pool_block *(*take)(struct idle_store *store, struct site *site, const struct fit *fit,
                               bool *stolen);

    /* Takes out an idle block of just that size which the site itself has freed: none serves a
     * request better, so that threads may keep such blocks in caches of their own (pool/cache.h).
     * NULL if there is none; the member itself is NULL where that does not hold. */
    struct pool_block *(*take_same)(struct idle_store *store, struct site *site, size_t size);

    /* Where there is take_same: whether the block serves the request if it is the smallest
     * sufficient one, a size above which none does, and the size of the smallest sufficient one in
     * the store; SIZE_MAX: there is none. Lock not needed: a cache that is alone may ask. */
    bool (*serves)(const struct pool_block *block, const struct fit *fit);
    size_t (*most)(const struct fit *fit);
    size_t (*least)(struct idle_store *store, size_t size);

    /* Keeps a block, which belongs to block->site. Takes one out, wherever it is kept. */
    void (*give)(struct idle_store *store, struct pool_block *block);
    void (*remove)(struct idle_store *store, struct pool_block *block);

    /* The driver has given the address of the block again: all of its region is gone. It is out of
     * its bin. NULL: it is in no region. */
    void (*lose)(struct idle_store *store, struct pool_block *block);

    /* A block that the policy does not keep after a free of `site`: one beyond `keep` (0: no limit)
     * blocks of the site, say. NULL: none. */
    struct pool_block *(*surplus)(struct idle_store *store, struct site *site, size_t keep);

    /* A block that a request of `site` has found unfit and that is then given up. NULL: none; the
     * member itself may be NULL. */
    struct pool_block *(*misfit)(struct site *site);

    /* What to give up first, NULL if there is nothing: all of a driver allocation. */
    struct pool_block *(*victim)(struct idle_store *store);

    /* Asks the driver for memory that serves a block of `least` bytes, and counts its allocations.
     * Lock not held. NULL: cuMemAlloc of just that. */
    CUresult (*obtain)(struct pool *pool, const struct request *request, size_t least,
                       struct obtained *obtained);

    /* Gives a block that has left the store to the driver. NOT_READY: that cannot be done now. Lock
     * not held. NULL: cuMemFree. */
    CUresult (*surrender)(struct pool *pool, struct pool_block *block);

    /* Idle memory that is in no block: takes out `bytes` of it, and returns how much that was.
     * NULL: there is none. */
    size_t (*take_unused)(struct pool *pool, struct context *context, size_t bytes,
                          struct page **list);
    /* Gives it to the driver, and returns the bytes that it took. Lock not held. */
    size_t (*release_unused)(struct pool *pool, struct page *list);

    /* Counts idle memory which the policy does not keep itself as being in no block. Lock not held.
     * NULL: it is counted already. */
    void (*refresh)(struct pool *pool, struct context *context);

    void (*usage)(const struct idle_store *store, struct policy_usage *usage);

    /* Whether all that belongs together agrees. Walks everything: for tests. */
    bool (*is_valid)(const struct idle_store *store);
};

extern const struct policy policy_site, policy_tag, policy_bins, policy_bfc, policy_driver_pool,
    policy_vmm;
/* These keep one kind of memory alone: they are no words of POOLCUDA_POLICY. */
extern const struct policy policy_host, policy_managed;
extern const struct policy *const policies[]; /* in the order of POOLCUDA_POLICY's words */
extern const size_t policy_count;

#endif
