/* Operations that signal semaphores from outside of CUDA and wait for them. All below: lock held.
 */
#ifndef SIMCUDA_EXTERNAL_SEMAPHORE_H
#define SIMCUDA_EXTERNAL_SEMAPHORE_H

#include "op.h"

/* Both make one operation; nothing of the arrays is needed afterwards. INVALID_HANDLE: one is no
 * semaphore. */
CUresult external_semaphore_signal(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *signals,
                                   struct op **made);
CUresult external_semaphore_wait(const CUDA_EXT_SEM_WAIT_NODE_PARAMS *waits, struct op **made);

#endif
