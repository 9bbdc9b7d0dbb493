/* Shares of a device that programs make: numbers of its multiprocessors. They are counted, and have
 * no effect. Lock not needed. */
#ifndef SIMCUDA_DEVICE_RESOURCE_H
#define SIMCUDA_DEVICE_RESOURCE_H

#include "cuda_symbols.h"

#if CUDA_VERSION >= 12040 /* older headers lack the types */

unsigned int device_resource_all(void); /* multiprocessors that a device has */

/* Whether such a resource can be asked for. */
CUresult device_resource_check(const CUdevResource *resource, CUdevResourceType type);

void device_resource_fill(CUdevResource *resource, CUdevice device, unsigned int count);
CUdevice device_resource_owner(const CUdevResource *resource); /* of one that was filled */

#endif
#endif
