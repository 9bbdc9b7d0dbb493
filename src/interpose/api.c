/* The public C functions. */
#include "poolcuda.h"

#include "interpose/state.h"

#define PUBLIC __attribute__((visibility("default")))

PUBLIC const char *poolcuda_version(void) {
    return POOLCUDA_VERSION;
}

PUBLIC size_t poolcuda_trim(int device, size_t bytes) {
    struct pool *pool = state_inside ? NULL : state_pool();
    if (!pool)
        return 0;
    state_inside = true;
    size_t released = pool_release(pool, device, bytes);
    state_inside = false;
    return released;
}
