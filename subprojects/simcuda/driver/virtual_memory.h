/* Virtual memory management: addresses and memory that the program puts together itself. All
 * below: lock held. */
#ifndef SIMCUDA_VIRTUAL_MEMORY_H
#define SIMCUDA_VIRTUAL_MEMORY_H

#include "entry.h"

#include <stddef.h>

/* Whether any of it is reserved by cuMemAddressReserve. */
bool virtual_memory_reserved(CUdeviceptr address, size_t size);

/* By what handles what is mapped at `address` can be shared; 0: nothing is, or by none. */
unsigned long long virtual_memory_handle_types(CUdeviceptr address);

/* Which of its device's memory is mapped at `address`: where a block of that kind's bytes are. */
bool virtual_memory_home(CUdeviceptr address, CUdeviceptr *home); /* false: another process's */

#endif
