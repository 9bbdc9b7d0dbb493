/* How much memory the machine has for this process. */
#ifndef POOLCUDA_INTERPOSE_HOST_MEMORY_H
#define POOLCUDA_INTERPOSE_HOST_MEMORY_H

#include <stdint.h>

/* Bytes: what is built in, or less where a control group says so. */
uint64_t host_memory_size(void);

#endif
