/* How much memory the host can still give. */
#ifndef SIMCUDA_HOST_ROOM_H
#define SIMCUDA_HOST_ROOM_H

#include <stdint.h>

/* Bytes that this process can still take before the system runs out of memory or a control group's
 * limit kills it. UINT64_MAX: nothing says so. `root` is put before every path that is read: "". */
uint64_t host_room(const char *root);

#endif
