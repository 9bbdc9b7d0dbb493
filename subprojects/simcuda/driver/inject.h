/* Failures on demand: SIMCUDA_FAIL_CALL and its companions make one call fail, so that a test can
 * try every position at which an interposer's own calls may fail. */
#ifndef SIMCUDA_INJECT_H
#define SIMCUDA_INJECT_H

#include "entry.h"

/* Counts a call that was made from the code address `caller`. Not CUDA_SUCCESS: the call is to fail
 * so, before it does anything. */
CUresult inject(enum entry_point entry, uintptr_t caller);

#endif
