/* The thread's capture mode, for calls of the pool's own that the program's may prohibit. */
#include "pool/internal.h"

/* In relaxed mode a free neither fails nor invalidates a capture, whichever thread makes that one
 * [cuda.h, cuThreadExchangeStreamCaptureMode]: the allocation for which idle memory is released may
 * be one that captures do not prohibit. */
CUresult capture_mode_exchange(struct pool *pool, CUstreamCaptureMode *mode) {
    return pool->driver->thread_exchange_capture_mode
               ? pool->driver->thread_exchange_capture_mode(mode)
               : CUDA_SUCCESS;
}
