/* The arguments of a kernel, as a launch or a graph's node has them. */
#ifndef POOLCUDA_INTERPOSE_LAUNCH_ARGUMENTS_H
#define POOLCUDA_INTERPOSE_LAUNCH_ARGUMENTS_H

#include "driver/cuda_api.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether an argument holds an address of plain host memory (host_addresses.h), in any of its
 * 8-byte words; an address in two halves, or in part of a word, is not seen. parameters, extra: the
 * two forms that cuLaunchKernel takes, of which the other is NULL. function: a CUfunction, or a
 * CUkernel in its place. True if nobody can say how many arguments there are. `now` is
 * host_addresses_begin's. Thread-safe, without a lock; the driver is asked about a function when it
 * is first met, and about one of very many arguments each time. */
bool launch_gives_host_address(CUfunction function, void *const *parameters, void *const *extra,
                               uint64_t now);

/* Functions' handles may have come to stand for others. */
void launch_arguments_forget(void);

#endif
