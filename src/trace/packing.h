/* An address for every request of a device, so that no two that are live at once overlap. */
#ifndef POOLCUDA_TRACE_PACKING_H
#define POOLCUDA_TRACE_PACKING_H

#include "trace/lives.h"

/* Sets packed, packed_bytes and rough of *bounds, and addresses (bounds.h). False without memory.
 */
bool packing_find(const struct lives *lives, uint64_t granule, struct bounds *bounds,
                  uint64_t *addresses);

#endif
