/* The one lock of the simulator: every record below the entry points is guarded by it. Kernels,
 * copies, costs and the program's callbacks run without it. What comments say of it, in the
 * wordings of src/lock.h, functions assert: the process ends where it is not true. */
#ifndef POOLCUDA_SIM_LOCK_H
#define POOLCUDA_SIM_LOCK_H

#include <pthread.h>

void sim_lock(void);
void sim_unlock(void);
/* Lock held on entry and return, not in between. */
void sim_wait(pthread_cond_t *condition);

/* To be called where the thread must have the lock, and where it must not. */
void sim_check_held(void);
void sim_check_none(void);

#endif
