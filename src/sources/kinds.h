/* Kinds of memory: which functions of the driver's a block comes from. */
#ifndef POOLCUDA_SOURCES_KINDS_H
#define POOLCUDA_SOURCES_KINDS_H

#include "blocks/kind.h"
#include "driver/driver.h"

extern const struct pool_kind kind_device;

/* The driver's functions for what is no device memory. The host's address stands for a block of
 * host memory. Lock not held. */
CUresult source_allocate_other(const struct driver *driver, const struct pool_kind *kind,
                               size_t size, CUdeviceptr *pointer);
/* Whether the processor may write to such memory at any time: what is managed and not attached to
 * the host it may not touch on some machines while a kernel runs. */
bool source_is_hosts(const struct pool_kind *kind);
/* The driver function that allocates, for reports. */
const char *source_call_name(const struct pool_kind *kind);

#endif
