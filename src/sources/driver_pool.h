/* A memory pool of the driver's, and the stream that a context allocates in. */
#ifndef POOLCUDA_SOURCES_DRIVER_POOL_H
#define POOLCUDA_SOURCES_DRIVER_POOL_H

#include "driver/driver.h"

#include <stdint.h>

struct context;

/* Idle memory that is in no block, on its way to the driver. */
struct page {
    struct context *context; /* whose memory pool it is in */
    size_t bytes;            /* that are to leave it */
    struct page *next;
};

/* Invariant: memory_pool and stream are NULL until they are needed; stream is of the
 * context and not set without memory_pool. `cannot`: this device has no memory pools. The store's
 * `unused` bytes are reserved - given, or 0. */
struct driver_pool {
    CUmemoryPool memory_pool;
    CUstream stream; /* the context's own, in which it allocates */
    bool cannot;
    uint64_t reserved;    /* bytes that memory_pool held when it was last asked */
    unsigned changes;     /* of `reserved` and `given` */
    uint64_t given;       /* bytes allocated from it and not yet given back */
    uint64_t until_asked; /* bytes that may be allocated before it is asked what can be had */
};

/* All below: lock not held. */

/* NOT_SUPPORTED: this device has no memory pools. */
CUresult driver_pool_make(const struct driver *driver, CUdevice ordinal, CUmemoryPool *made);
/* NULL: there is none. */
void driver_pool_destroy(const struct driver *driver, CUmemoryPool memory_pool, CUstream stream);
/* Ends what a context had (NULL: nothing): the driver's pool goes with its last allocation.
 * stream_gone: the context has ended already. */
void driver_pool_end(const struct driver *driver, struct driver_pool *async, bool stream_gone);
/* What the device has free and the driver's pool unused. False: the driver does not say. Gate
 * entered. */
bool driver_pool_available(const struct driver *driver, const struct driver_pool *async,
                           uint64_t *bytes);
/* Trims a memory pool of the driver's by `bytes`, as far as that can be done without waiting.
 * Returns what the driver has got back: less than was unused, where live memory shares its pages.
 * Gate entered. */
size_t driver_pool_trim(const struct driver *driver, CUmemoryPool handle, size_t bytes);

#endif
