/* A policy: where device memory comes from, and how it is kept while idle. */
#ifndef POOLCUDA_POOL_POLICY_H
#define POOLCUDA_POOL_POLICY_H

#include "driver/cuda_api.h"
#include "keep/keeper.h"
#include "pool/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct pool;
struct request;
struct context;
struct page;
struct share;

/* Memory that came from the driver. */
struct obtained {
    CUdeviceptr pointer;
    size_t size;
    /* Mapped chunks: the block itself, which counts as live and is WAITING until it is adopted.
     * NULL elsewhere. */
    struct pool_block *block;
    bool stitched; /* of memory that was held already: nothing was allocated */
    /* From a memory pool of the driver's: until it is adopted its context does not end. */
    bool in_driver_pool;
    unsigned undone;     /* blocks that the driver gave and got back: they were too little */
    struct share *share; /* in the device's list `sharing`, until it is adopted; NULL: it is not */
};

/* Where memory comes from. Its calls of CUDA are in src/sources. */
struct source {
    /* Whether `obtain` may serve from idle memory: what is held then need not grow. */
    bool reuses;

    /* Asks the driver for memory that serves a block of `least` bytes, and counts its allocations.
     * Lock not held. NULL: the driver's function for the kind, for just that. */
    CUresult (*obtain)(struct pool *pool, const struct request *request, size_t least,
                       struct obtained *obtained);

    /* Gives a block that has left the store to the driver. NOT_READY: that cannot be done now. Lock
     * not held. NULL: the driver's function for the kind. */
    CUresult (*surrender)(struct pool *pool, struct pool_block *block);

    /* Idle memory that is in no block: takes out `bytes` of it, and returns how much that was.
     * Lock held. NULL: there is none. */
    size_t (*take_unused)(struct pool *pool, struct context *context, size_t bytes,
                          struct page **list);
    /* Gives it to the driver, and returns the bytes that it took. Lock not held. */
    size_t (*release_unused)(struct pool *pool, struct page *list);

    /* Counts idle memory that the store does not keep itself as being in no block. Lock not held.
     * NULL: it is counted already. */
    void (*refresh)(struct pool *pool, struct context *context);
};

/* By calls of the driver's, a block each; regions of them, that double or are of fixed sizes;
 * chunks, mapped side by side; a memory pool of the driver's. */
extern const struct source source_plain, source_regions, source_segments, source_mapped,
    source_driver_pool;

/* The driver's functions for a kind of memory. Lock not held. */
CUresult source_allocate(const struct pool *pool, const struct pool_kind *kind, size_t size,
                         CUdeviceptr *pointer);
/* Allocates so and counts it: also for policies, where their own way is barred. Lock not held. */
CUresult source_obtain(struct pool *pool, const struct pool_kind *kind, size_t size,
                       struct obtained *obtained);
/* Whether calls about such memory are timed for the report: where the source has another way to
 * obtain memory, they are not like those that pooling avoids. */
bool source_is_timed(const struct pool *pool, enum pool_memory memory);

/* `bytes` of the context were given back to the driver's memory pool, by whomever. Lock held. */
void source_driver_pool_gave_back(struct pool *pool, struct context *context, size_t bytes);
/* Takes a block that has left the ledger while its context ends, or later. Lock held. */
void stranded_keep(struct pool *pool, struct pool_block *block);
/* Whether that is kept of a context that the driver has ended: for the program it is free. Lock
 * held. */
bool stranded_has(struct pool *pool, CUdeviceptr pointer);
/* The block that the address lies in, of a context that the driver has not ended: for the program
 * it is live. Its region is gone. NULL: there is none. Lock held. */
const struct pool_block *stranded_around(const struct pool *pool, CUdeviceptr pointer);
/* What the driver is to be asked to free for a program that frees what has no record: the pointer,
 * 0 or POOL_NOWHERE. Lock held on entry and return, not in between. */
CUdeviceptr stranded_as_freed(struct pool *pool, CUdeviceptr pointer);
/* Whether something of the context is kept whose end is not over. Lock held. */
bool stranded_refers_to(const struct context *context);
/* The driver has ended the contexts that this thread ends, or refused to. Lock held. */
void stranded_end_is_over(struct pool *pool, bool ended);
/* Frees what is kept of contexts that the driver has ended. A context of the device is current,
 * gate entered. Lock not held. */
void stranded_free(struct pool *pool, struct device *device);

/* shares.c. Has the source of the request's context obtain `size` bytes. Lock not held. */
CUresult source_obtain_sharing(struct pool *pool, const struct request *request, size_t size,
                               struct obtained *obtained);
/* Before the driver is asked for a region from which other requests may be served: until
 * it is adopted, a request that is refused because of it waits. Lock held. */
void source_shares(struct device *device, struct obtained *obtained);
/* There will be no such region. Lock not held. */
void source_shares_nothing(struct pool *pool, struct obtained *obtained);
/* What was obtained has its record: nobody waits for it any more. Lock held. */
void source_adopted(struct pool *pool, struct context *context, const struct obtained *obtained);
/* Whether there is one of those numbered up to `last`; and all are forgotten. Lock held. */
bool source_is_shared(const struct device *device, uint64_t last);
void source_forget_shares(struct device *device); /* Lock held. */

/* A request that may serve itself from idle memory, or from several pieces of the driver's, and
 * gives them back if all is too little. The context does not end meanwhile. A request that the
 * driver refuses waits for those begun before its refusal, whose pieces it may have lacked, and for
 * all that took idle memory: they count as releasing. Others can bring it nothing. */
struct attempt {
    struct share *share;
    bool took; /* idle memory, which comes back if it is too little */
};

/* All below: lock held. */
void attempt_begins(struct context *context, struct attempt *attempt);
/* Idle memory is taken for it. */
void attempt_takes(struct context *context, struct attempt *attempt);
/* What has come of it can be seen. undone: the driver has got pieces back. */
void attempt_ends(struct pool *pool, struct context *context, const struct attempt *attempt,
                  bool undone);

struct policy {
    const char *name;
    const struct keeper *keeper;
    const struct source *source;
};

extern const struct policy policies[]; /* in the order of POOLCUDA_POLICY's words */
extern const size_t policy_count;

#endif
