/* Memory that stays free beside the pool: it is looked after when live memory grows. */
#include "pool/internal.h"

/* The bytes kept free: for launches and all else that takes memory without being asked for it, and
 * for others that share the device (throttle_ratio). Lock held. */
static uint64_t bytes_wanted(const struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    static const uint64_t most = 256 << 20;
    double ratio = pool->config.throttle_ratio;
    uint64_t least = device->total / 100 < most ? device->total / 100 : most;
    uint64_t throttle = ratio > 0 ? (uint64_t)((1 - ratio) * (double)device->total) : 0;
    return throttle > least ? throttle : least;
}

/* Asking the driver what is free costs more than an allocation. So after each answer half of what
 * there is above the headroom may be allocated before it is asked again. */
bool headroom_may_lack(struct device *device, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    if (!device->idle || device->memory != POOL_DEVICE)
        return false;
    if (grown >= device->until_asked)
        return true;
    device->until_asked -= grown;
    return false;
}

void headroom_keep(struct pool *pool, struct context *context) {
    lock_check_none();
    struct device *device = context->device;
    struct release_list releases = {.device = device};
    size_t available = 0, total = 0;
    if (!gate_enter(pool))
        return;
    pool_lock(pool);
    uint64_t wanted = bytes_wanted(pool, device);
    pool_unlock_between(pool);
    CUresult result = pool->driver->mem_get_info(&available, &total);
    gate_leave(pool);
    bool short_of = result == CUDA_SUCCESS && available < wanted;
    bool release = short_of && context_is_quiet(pool, context); /* a free would wait */
    pool_lock(pool);
    uint64_t kept = bytes_wanted(pool, device); /* it may have been set anew */
    device->until_asked = available > kept ? (available - kept) / 2 : 0;
    if (release && !context->ended) {
        releases.quiet = context;
        release_collect(pool, &(struct release_scope){device, context, true, false},
                        wanted - available, &releases);
        stats_add(STATS_headroom_released_blocks, releases.count);
        release_list_give_back(pool, &releases);
    }
    pool_unlock(pool);
}
