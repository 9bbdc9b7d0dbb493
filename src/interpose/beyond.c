#include "interpose/beyond.h"

#include "interpose/driver_hooks.h"

/* Not in driver_hooks.c, where a further use of quick_malloc would cost other hits its inlining. */
bool beyond_hit(CUdeviceptr *pointer, size_t bytes, uintptr_t return_address, uintptr_t frame) {
    struct pool *pool = atomic_load_explicit(&state_quick, memory_order_acquire);
    uintptr_t site = pool ? caller_beyond(return_address, frame) : 0;
    if (!site)
        return false;
    enum quick quick = quick_malloc(pool, pointer, bytes, site, false);
    return quick == QUICK_DONE || (quick == QUICK_MISS && missed(pool, pointer, bytes, site));
}
