/* Limits that no allocator beats on a trace: how far from the best possible a policy is. What is
 * proven, and how: docs/tuning.md. */
#ifndef POOLCUDA_TRACE_BOUNDS_H
#define POOLCUDA_TRACE_BOUNDS_H

#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

/* Stands for all devices together in place of a device's number, as a process's totals are
 * counted. */
#define BOUNDS_ALL_DEVICES UINT32_MAX

/* Memory, in bytes. The least that an allocator, even one that knows the whole trace, can hold at
 * its peak lies from live_bytes to packed_bytes. */
struct bounds {
    /* At most live at one moment, as requested: no allocator's peak is lower. All devices together:
     * at one moment, too. */
    uint64_t live_bytes;
    /* Most requests live at one moment; of all devices together, the sum of each one's most. */
    uint64_t live_blocks;
    /* The height of an actual packing: with its addresses, a single region of that many bytes per
     * device serves the trace. All devices together: the sum. Requests are rounded up to the
     * granule, addresses are multiples of it; rounding to pages or otherwise is not counted. */
    uint64_t packed_bytes;
    bool packed; /* false: sizes that together pass 2^64; packed_bytes is UINT64_MAX */
    bool rough;  /* too much is live at once to pack with care: small blocks lie on top of others */
};

/* Computes the bounds of one device or of all. granule: the alignment of addresses, a power of two,
 * 512 for what CUDA gives, 1 for the sizes as they are. addresses: NULL, or room for
 * trace->block_count, where each of the device's blocks gets its address in the packing, if there
 * is one. False without memory. */
bool bounds_of(const struct trace *trace, uint32_t device, uint64_t granule, struct bounds *bounds,
               uint64_t *addresses);

enum bounds_answer {
    BOUNDS_FOUND,
    BOUNDS_IMPOSSIBLE, /* more than that is live at once: no allocator holds so little */
    BOUNDS_NO_MEMORY
};

/* Sets *allocations to a number of driver allocations that no allocator undercuts which reuses
 * blocks whole (a driver allocation serves one request at a time, none larger than itself) and
 * never holds more than `held` bytes at a time. A relaxation: the least possible may be more. With
 * all devices, `held` is what they hold together. It depends on nothing but requests and order. */
enum bounds_answer bounds_fewest_whole(const struct trace *trace, uint32_t device, uint64_t held,
                                       uint64_t *allocations);

/* Sets *allocations for allocators that cut or remap what the driver gave: one per device that has
 * a request at all. That is attained, with one region per device, if `held` is at least
 * packed_bytes. */
enum bounds_answer bounds_fewest_cut(const struct trace *trace, uint32_t device, uint64_t held,
                                     uint64_t *allocations);

#endif
