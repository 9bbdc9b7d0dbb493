/* Device memory that several processes share: SIMCUDA_SHARED names a file in which each counts what
 * it has taken, so that together they have what the devices have. All below: lock held. */
#ifndef SIMCUDA_SHARED_MEMORY_H
#define SIMCUDA_SHARED_MEMORY_H

#include "entry.h"

#include <stddef.h>
#include <stdint.h>

/* Adds `change` pages to what this process has taken of the device, unless that would make more
 * than `limit` of all processes together. Returns false then. Without SIMCUDA_SHARED: true. */
bool shared_memory_take(CUdevice device, int64_t change, size_t limit);
/* Pages that other processes have taken. */
size_t shared_memory_elsewhere(CUdevice device);

/* A number that is the same in all processes of the file, and in no others. */
uint64_t shared_memory_identity(void);

#endif
