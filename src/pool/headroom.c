/* Memory that stays free beside the pool: it is looked after when live memory grows.
 *
 * Idle memory is given up for it only if that restores it, and only for a new reason: since the
 * last time the program itself, or others on the device, have come to use more than ever. Else what
 * the program allocates and frees in a loop on a device that is nearly full would be given up,
 * allocated and given up again, and the device be no emptier for that. */
#include "pool/bounds.h"
#include "pool/internal.h"

/* The share of `total` bytes that is kept free: for launches and all else that takes memory without
 * being asked for it, and for others that share it (throttle_ratio). Lock held. */
static uint64_t bytes_wanted(const struct pool *pool, uint64_t total) {
    lock_check_held(LOCK_POOL);
    static const uint64_t most = 256 << 20;
    double ratio = pool->config.throttle_ratio;
    uint64_t least = total / 100 < most ? total / 100 : most;
    uint64_t throttle = ratio > 0 ? (uint64_t)((1 - ratio) * (double)total) : 0;
    return throttle > least ? throttle : least;
}

/* What is too little to be a reason, or to ask for. */
static uint64_t little(const struct device *device) {
    return device->total / 256;
}

/* Asking what is free costs more than an allocation. So after each answer half of what there is
 * above the headroom may be allocated before it is asked again. */
bool headroom_may_lack(struct device *device, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    if (!device_idle(device) || device->memory != POOL_DEVICE)
        return false;
    if (grown >= device->until_asked)
        return true;
    device->until_asked -= grown;
    return false;
}

/* By how much the tightest of them is short; *spare: what it has to spare, if none is. Lock held.
 */
static uint64_t lack_of(const struct pool *pool, const struct available *left, size_t growth,
                        uint64_t *spare) {
    lock_check_held(LOCK_POOL);
    uint64_t lack = 0;
    *spare = UINT64_MAX;
    for (int i = 0; i < left->count; i++) {
        uint64_t kept = bytes_wanted(pool, left->of[i].total) + growth, has = left->of[i].bytes;
        if (has < kept && kept - has > lack)
            lack = kept - has;
        if (has >= kept && has - kept < *spare)
            *spare = has - kept;
    }
    return lack;
}

/* Idle memory of the context that the driver could have back. Lock held. */
static uint64_t could_give(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    const struct idle_store *store = &context->store;
    cache_drain(pool, context);
    return store->bytes - store->stranded + store->unused;
}

/* What others use of the device, as far as it is known. */
static uint64_t used_by_others(const struct device *device, const struct available *left) {
    uint64_t used = left->of[0].total - left->of[0].bytes, own = device->held;
    return used > own ? used - own : 0;
}

/* Whether more is live, or used by others, than when idle memory was last given up. Who has left
 * for a while is none when he comes back, but where that was much. Lock held. */
static bool is_new_reason(struct device *device, const struct available *left) {
    lock_check_held(LOCK_POOL);
    uint64_t others = used_by_others(device, left);
    if (others + device->total / 32 < device->crowd_others)
        device->crowd_others = others;
    bool more_live = device->peak_live > device->crowd_live + little(device);
    bool more_others = others > device->crowd_others + little(device);
    if (!more_live && !more_others && device->crowded)
        return false;
    device->crowded = true;
    if (more_live || !device->crowd_live)
        device->crowd_live = device->peak_live;
    if (more_others || !device->crowd_others)
        device->crowd_others = others;
    return true;
}

/* How much may be allocated before it is asked again. Lock held. */
static uint64_t until_next(const struct device *device, uint64_t lack, uint64_t spare) {
    lock_check_held(LOCK_POOL);
    if (!lack)
        return spare / 2;
    return lack > little(device) && !device->place.unified ? lack : little(device);
}

/* Whether not even `growth` bytes are left. */
static bool is_urgent(const struct available *left, size_t growth) {
    bool urgent = false;
    for (int i = 0; i < left->count; i++)
        urgent = urgent || left->of[i].bytes < growth;
    return urgent;
}

/* Whether idle memory is to be given up. Lock held. */
static bool is_worth_it(struct pool *pool, struct context *context, const struct available *left,
                        uint64_t lack, size_t growth) {
    lock_check_held(LOCK_POOL);
    if (!lack || context->ended)
        return false;
    return is_urgent(left, growth) ||
           (could_give(pool, context) >= lack && is_new_reason(context->device, left));
}

static void give_up(struct pool *pool, struct context *context, uint64_t bytes) {
    struct device *device = context->device;
    struct release_list releases = {.device = device, .waits = RELEASE_IF_QUIET, .quiet = context};
    release_collect(pool, &(struct release_scope){device, context, true}, bytes, &releases);
    given_up_note(device, releases.first, NULL);
    stats_add(STATS_headroom_released_blocks, releases.count);
    release_list_give_back(pool, &releases);
}

void headroom_keep(struct pool *pool, struct context *context, size_t growth) {
    lock_check_none();
    struct device *device = context->device;
    struct available left;
    uint64_t spare;
    if (!pool_gate_enter(pool))
        return;
    pool_lock(pool);
    uint64_t held = device->held;
    pool_unlock_between(pool);
    bool known = available_ask(pool, device, held, &left);
    pool_gate_leave(pool);
    pool_lock(pool);
    uint64_t lack = known ? lack_of(pool, &left, growth, &spare) : 0;
    device->until_asked = known ? until_next(device, lack, spare) : little(device);
    bool worth = is_worth_it(pool, context, &left, lack, growth);
    pool_unlock_between(pool);
    bool quiet = worth && context_is_quiet(pool, context); /* a free would wait */
    pool_lock(pool);
    if (worth && !quiet)
        device->crowded = false; /* it is still to be done */
    if (quiet && !context->ended)
        give_up(pool, context, lack);
    pool_unlock(pool);
}
