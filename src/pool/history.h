/* How a device's memory was over time, for the report: the samples of its struct stats_device. All
 * below: lock held. */
#ifndef POOLCUDA_POOL_HISTORY_H
#define POOLCUDA_POOL_HISTORY_H

#include "pool/block.h"

/* To be called after the device's sums have changed. Looks at the clock only now and then. */
void history_note(struct device *device);

void history_sample(struct device *device); /* at once */

#endif
