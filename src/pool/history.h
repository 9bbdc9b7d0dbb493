/* How a device's memory was over time and lies in the address space, for the report: the samples
 * and the map of its struct stats_device. All below: lock held. */
#ifndef POOLCUDA_POOL_HISTORY_H
#define POOLCUDA_POOL_HISTORY_H

#include "pool/block.h"

struct pool;

/* To be called after the device's sums have changed. Looks at the clock only now and then. */
void history_note(struct device *device);

/* To be called after an allocation from the driver: makes a new map once held memory has grown by
 * an eighth. */
void history_map(struct pool *pool, struct device *device);

#endif
