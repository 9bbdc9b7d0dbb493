/* What is in use, idle and held at one moment. */
#include "pool/internal.h"

static void add(struct pool_usage *sum, const struct device *device) {
    sum->in_use += device->in_use;
    sum->idle += device_idle(device);
    sum->waste += device->live - device->in_use;
    sum->held += device->held;
    sum->peak_live += device->peak_live;
    sum->peak_held += device->peak_held;
    sum->live_blocks += device->live_blocks;
    sum->idle_blocks += device_idle_blocks(device);
    sum->allocations += device->allocations;
    sum->hits += device->hits;
    sum->frees += device->frees;
    sum->oom_events += device->oom_events;
    sum->oom_rescued += device->oom_rescued;
}

void pool_usage(struct pool *pool, CUdevice ordinal, struct pool_usage *usage) {
    const struct device *device;
    *usage = (struct pool_usage){0};
    pool_lock(pool);
    TAILQ_FOREACH (device, &pool->devices, link)
        if ((ordinal == POOL_ALL_DEVICES && device->memory == POOL_DEVICE) ||
            device->ordinal == ordinal)
            add(usage, device);
    if (ordinal == POOL_ALL_DEVICES) {
        usage->peak_live = pool->peak_live;
        usage->peak_held = pool->peak_held;
    }
    pool_unlock(pool);
}
