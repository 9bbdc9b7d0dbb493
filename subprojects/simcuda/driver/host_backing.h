/* What of the simulated memory the host has been asked to stand behind, and whether it can. All
 * below: lock held.
 *
 * A device has more memory than most hosts, and most programs write to little of it: so memory is
 * promised, in the host's pages, when work that will need it is submitted. Such work is refused
 * where the host cannot keep the promise; otherwise the system would end the process, or all
 * others. */
#ifndef SIMCUDA_HOST_BACKING_H
#define SIMCUDA_HOST_BACKING_H

#include "entry.h"
#include "op.h"

#include <stddef.h>

/* Promises host memory for what `op` and its children access. false: the host has not so much. The
 * report says so, and nothing has happened. */
bool host_backing_promise(const struct op *op);

/* Promises it for memory that the process itself may write to at any time; and ends that. */
bool host_backing_promise_visible(size_t bytes);
void host_backing_end_visible(size_t bytes);

/* [offset, offset + bytes) of the device's memory, whole host pages, is fresh again. */
void host_backing_forget(CUdevice device, uint64_t offset, size_t bytes);

#endif
