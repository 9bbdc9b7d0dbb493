/* The one lock of the simulator: every record below the entry points is guarded by it. Kernels,
 * copies, costs and the program's callbacks run without it. */
#ifndef POOLCUDA_SIM_LOCK_H
#define POOLCUDA_SIM_LOCK_H

#include <pthread.h>

void sim_lock(void);
void sim_unlock(void);
void sim_wait(pthread_cond_t *condition); /* releases the lock while it waits */

#endif
