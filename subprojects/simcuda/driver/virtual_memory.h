/* Virtual memory management: addresses and memory that the program puts together itself. All
 * below: lock held. */
#ifndef SIMCUDA_VIRTUAL_MEMORY_H
#define SIMCUDA_VIRTUAL_MEMORY_H

#include "entry.h"

#include <stddef.h>

/* Whether any of it is reserved by cuMemAddressReserve. */
bool virtual_memory_reserved(CUdeviceptr address, size_t size);

#endif
