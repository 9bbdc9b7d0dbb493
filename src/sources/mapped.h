/* Physical pages of 2 MiB, and the ranges of addresses that they are mapped at. A list of pages is
 * one that nobody else sees. */
#ifndef POOLCUDA_SOURCES_MAPPED_H
#define POOLCUDA_SOURCES_MAPPED_H

#include "driver/driver.h"

#include <bsd/sys/queue.h>
#include <stdint.h>

/* Idle memory that is in no block, on its way to the driver. */
struct page {
    CUmemGenericAllocationHandle handle; /* of a page, or a memory pool of the driver's */
    size_t bytes;                        /* of the latter: that are to leave it */
    struct page *next;
};

/* A range of addresses, reserved at once. Invariant: handle[i] is the page mapped at base + i
 * pages, 0 where none is; mapped counts the others. */
struct reservation {
    uint64_t base; /* a CUdeviceptr */
    size_t pages, mapped;
    LIST_ENTRY(reservation) link;
    CUmemGenericAllocationHandle handle[];
};

/* What one context has. Invariant: its store's `unused` bytes are those of `cached`. */
struct mapped {
    LIST_HEAD(, reservation) reservations;
    struct page *cached; /* mapped nowhere */
};

void pages_push(struct page **list, struct page *page);
size_t pages_count(const struct page *list);
/* All below: lock not held. */

/* Adds up to `count` new pages to the list; all of them or an error. */
CUresult pages_create(const struct driver *driver, CUdevice ordinal, size_t count,
                      struct page **list);
/* Maps all pages of the list side by side, in a reservation of their number; on an error the list
 * is as it was. */
CUresult pages_map(const struct driver *driver, CUdevice ordinal, struct page *list,
                   struct reservation **made);
/* Unmaps pages of a reservation; their handles go to the list. False without host memory or if the
 * driver refuses: then they stay mapped. */
bool pages_unmap(const struct driver *driver, struct reservation *reservation, uint64_t pointer,
                 size_t size, struct page **list);
/* Gives them to the driver, and returns the bytes that it took. */
size_t pages_release(const struct driver *driver, struct page *list);
/* Gives all of a context that ends, whose work is over or lost, to the driver. NULL: nothing. */
void mapped_release(const struct driver *driver, struct mapped *mapped);

/* Forgets everything; makes no CUDA call. Lock not needed. */
void mapped_destroy(struct mapped *mapped);

#endif
