/* Headroom is looked after when live memory grows. Idle memory is given up for it only if that
 * restores it, and only for a new reason: since the last time the program itself, or others on the
 * device, have come to use more than ever. Else what the program allocates and frees in a loop on a
 * device that is nearly full would be given up, allocated and given up again, and the device be no
 * emptier for that. */
#include "pool/internal.h"

/* The share of `total` bytes that is kept free: for launches and all else that takes memory without
 * being asked for it, and for others that share it (throttle_ratio). */
static uint64_t bytes_wanted(const struct pool_config *config, uint64_t total) {
    static const uint64_t most = 256 << 20;
    double ratio = config->throttle_ratio;
    uint64_t least = total / 100 < most ? total / 100 : most;
    uint64_t throttle = ratio > 0 ? (uint64_t)((1 - ratio) * (double)total) : 0;
    return throttle > least ? throttle : least;
}

/* What is too little to be a reason, or to ask for. */
static uint64_t little(const struct device *device) {
    return device->total / 256;
}

/* How much may be allocated before it is asked again. */
static uint64_t until_next(const struct device *device, uint64_t lack, uint64_t spare) {
    if (!lack)
        return spare / 2;
    return lack > little(device) && !device->unified ? lack : little(device);
}

uint64_t headroom_lack(const struct pool_config *config, struct device *device,
                       const struct available *left, size_t growth) {
    lock_check_held(LOCK_POOL);
    uint64_t lack = 0, spare = UINT64_MAX; /* of the tightest */
    for (int i = 0; left && i < left->count; i++) {
        uint64_t kept = bytes_wanted(config, left->of[i].total) + growth, has = left->of[i].bytes;
        if (has < kept && kept - has > lack)
            lack = kept - has;
        if (has >= kept && has - kept < spare)
            spare = has - kept;
    }
    device->bounds.until_asked = left ? until_next(device, lack, spare) : little(device);
    return lack;
}

bool headroom_is_urgent(const struct available *left, size_t growth) {
    lock_check_held(LOCK_POOL);
    bool urgent = false;
    for (int i = 0; i < left->count; i++)
        urgent = urgent || left->of[i].bytes < growth;
    return urgent;
}

/* What others use of the device, as far as it is known. */
static uint64_t used_by_others(const struct device *device, const struct available *left) {
    uint64_t used = left->of[0].total - left->of[0].bytes, own = device->held;
    return used > own ? used - own : 0;
}

/* Who has left for a while is none when he comes back, but where that was much. */
bool headroom_is_new_reason(struct device *device, const struct available *left) {
    lock_check_held(LOCK_POOL);
    struct device_bounds *of = &device->bounds;
    uint64_t others = used_by_others(device, left);
    if (others + device->total / 32 < of->crowd_others)
        of->crowd_others = others;
    bool more_live = device->peak_live > of->crowd_live + little(device);
    bool more_others = others > of->crowd_others + little(device);
    if (!more_live && !more_others && of->crowded)
        return false;
    of->crowded = true;
    if (more_live || !of->crowd_live)
        of->crowd_live = device->peak_live;
    if (more_others || !of->crowd_others)
        of->crowd_others = others;
    return true;
}

void headroom_put_off(struct device *device) {
    lock_check_held(LOCK_POOL);
    device->bounds.crowded = false;
}

bool headroom_is_there(const struct device *device, uint64_t idle, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    return !idle || grown < device->bounds.until_asked;
}
