/* Host memory for the simulator's own records. A simulator that runs out of it cannot go on
 * pretending to be a device, so these end the process instead of failing. */
#ifndef SIMCUDA_ALLOCATE_H
#define SIMCUDA_ALLOCATE_H

#include <stddef.h>

void *allocate_zeroed(size_t size);
void *allocate_again(void *memory, size_t size);

#endif
