/* The one lock of the simulator: every record below the entry points is guarded by it. Kernels,
 * copies, costs and the program's callbacks run without it. What the comment at a function says of
 * it, the function asserts first of all: the process ends where it is not true. The wordings are
 *   Lock held.        The caller has it. "on entry, not on return": the function gives it back.
 *                     "on entry and return, not in between": what was read before may be stale.
 *   Lock not held.    The caller has it not.
 *   Lock not needed.  An exception in a group that says otherwise.
 * "All below: ..." speaks of the rest of the file, as far as the next group or part of it. */
#ifndef SIMCUDA_LOCK_H
#define SIMCUDA_LOCK_H

#include <pthread.h>

void sim_lock(void);
void sim_unlock(void);
/* Lock held on entry and return, not in between. */
void sim_wait(pthread_cond_t *condition);

/* To be called where the thread must have the lock, and where it must not. */
void sim_check_held(void);
void sim_check_none(void);

#endif
