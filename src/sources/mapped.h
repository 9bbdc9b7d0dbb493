/* Physical memory in chunks, mapped into ranges of addresses that were reserved for much more. */
#ifndef POOLCUDA_SOURCES_MAPPED_H
#define POOLCUDA_SOURCES_MAPPED_H

#include "blocks/reservation.h"
#include "driver/driver.h"

#include <stdbool.h>

/* What one context has. met_small: it has asked for more than what large requests lacked. */
struct mapped {
    LIST_HEAD(, reservation) reservations;
    bool met_small;
};

/* A list of chunks that are mapped nowhere, and that nobody else sees; in the order in which they
 * are to lie. */
struct chunks {
    struct chunk *first, *last;
    size_t bytes;
};

/* All below: lock not held. */

/* Adds a chunk of `bytes`, whole pages. */
CUresult chunks_create(const struct driver *driver, CUdevice ordinal, size_t bytes,
                       struct chunks *chunks);
void chunks_add(struct chunks *chunks, struct chunk *chunk);
/* Gives them to the driver, and returns how many it took. */
unsigned chunks_release(const struct driver *driver, struct chunks *chunks);
/* Maps them side by side from the address on, which nothing is mapped at. On an error nothing is.
 */
CUresult chunks_map(const struct driver *driver, CUdevice ordinal, const struct chunks *chunks,
                    uint64_t base);
/* Unmaps what they are mapped at, side by side. False: the driver refuses, and they stay mapped. */
bool chunks_unmap(const struct driver *driver, uint64_t base, size_t bytes);

/* Addresses for `bytes`, and many more where the driver has them. NULL: it has none, or there is no
 * host memory. */
struct reservation *reservation_make(const struct driver *driver, size_t bytes, size_t more);
/* With nothing mapped in it. */
void reservation_give_back(const struct driver *driver, struct reservation *reservation);
/* Gives all of a context that ends, whose work is over or lost, to the driver. NULL: nothing. */
void mapped_release(const struct driver *driver, struct mapped *mapped);

/* Forgets everything; makes no CUDA call. Lock not needed. */
void mapped_destroy(struct mapped *mapped);

#endif
