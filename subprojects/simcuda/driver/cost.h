/* The time that simulated operations take. */
#ifndef SIMCUDA_COST_H
#define SIMCUDA_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t clock_ns(void); /* monotonic time in nanoseconds */

/* Keeps the calling thread busy or asleep for `ns` with SIMCUDA_COST=1, and adds it to the sum that
 * the report calls modelled_ns, unless SIMCUDA_COST=0. Lock not held. */
void cost_spend(uint64_t ns);

/* As cost_spend, for a transfer of `bytes` at `gbps` 10^9 bytes per second. */
void cost_spend_transfer(size_t bytes, double gbps);

uint64_t cost_modelled_ns(void); /* the sum, over all threads */

/* What a kernel does that is busy for `ns`, costs switched off or not; only virtual time goes by
 * without its taking real time. Lock not held. */
void cost_keep_busy(uint64_t ns);

/* Virtual time, with SIMCUDA_COST=3. Each thread of the host has a time, to which its calls' costs
 * are added; each work has one at which it is finished; a wait moves the thread's time to that of
 * the work, and a query says what is so at the thread's time. */
bool time_is_virtual(void);
uint64_t time_host(void); /* of the calling thread */
void time_host_reach(uint64_t ns);

uint64_t time_latest(void); /* of any thread */

/* A work's time while this thread executes it: when it began, with virtual time, and how long its
 * costs are and it had to wait. */
struct work_time {
    uint64_t start_ns, takes_ns;
};
void time_work_begin(struct work_time *time, uint64_t start_ns);
void time_work_end(void);
/* How far the work that this thread executes is; the second has it go on until then at least. */
uint64_t time_work_now(void);
void time_work_reach(uint64_t ns);

/* Returns at clock_ns() >= deadline, costs switched off or not. */
void cost_wait_until(uint64_t deadline);

#endif
