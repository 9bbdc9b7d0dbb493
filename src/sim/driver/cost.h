/* The time that simulated operations take. */
#ifndef POOLCUDA_SIM_COST_H
#define POOLCUDA_SIM_COST_H

#include <stddef.h>
#include <stdint.h>

uint64_t clock_ns(void); /* monotonic time in nanoseconds */

/* Keeps the calling thread busy or asleep for `ns` with SIMCUDA_COST=1, and adds it to the sum that
 * the report calls modelled_ns, unless SIMCUDA_COST=0. Lock not held. */
void cost_spend(uint64_t ns);

/* As cost_spend, for a transfer of `bytes` at `gbps` 10^9 bytes per second. */
void cost_spend_transfer(size_t bytes, double gbps);

uint64_t cost_modelled_ns(void); /* the sum, over all threads */

/* Returns at clock_ns() >= deadline, costs switched off or not. */
void cost_wait_until(uint64_t deadline);

#endif
