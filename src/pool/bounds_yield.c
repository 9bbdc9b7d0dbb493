/* Bounds that yield. A program that uses a little more in turns than may lie idle has a size given
 * up for the bound in each round, and misses it in the next: calls of the driver without end. So
 * every MISSED_OFTEN such misses let a little more be held, and the first double what may be
 * wasted, where most of the device was never used and no allocation has failed. */
#include "pool/internal.h"

enum { MOST_STEPS = 4 };

/* A step is small beside the device: other processes may use the rest. */
static uint64_t more_to_hold(const struct device *device) {
    uint64_t steps = device->bounds.missed / MISSED_OFTEN, share = device->total / 200;
    uint64_t step = device->peak_in_use / 20 + IDLE_SLACK / 4;
    if (device->frugal || device->peak_in_use >= device->total / 4)
        return 0;
    return (steps < MOST_STEPS ? steps : MOST_STEPS) * (step < share ? step : share);
}

void bounds_missed(struct device *device) {
    lock_check_held(LOCK_POOL);
    device->bounds.missed++;
    stats_add(STATS_bound_misses, 1);
    device->bounds.yielded = more_to_hold(device);
}

void bounds_tighten(struct device *device) {
    lock_check_held(LOCK_POOL);
    device->frugal = true;
    device->bounds.yielded = 0;
}
