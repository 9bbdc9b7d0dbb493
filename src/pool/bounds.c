#include "pool/suballocation.h"

/* By the pool's own rule at most so much lies idle. Host memory is locked: no other process can
 * have it, and the system cannot ask for it back. Managed memory may lie on the device, where the
 * driver copies it to the host for whoever needs room: that costs time, and no call tells of it. */
static uint64_t most_idle(const struct device *device) {
    enum { HOST_SHARE = 16 };
    switch (device->memory) {
    case POOL_HOST:
        return device->total / HOST_SHARE;
    case POOL_MANAGED:
        return IDLE_SLACK;
    case POOL_DEVICE:
        break;
    }
    return UINT64_MAX;
}

/* The pool's own rule: held memory stays under 1.2 x peak in use + 64 MiB, what the bound yields,
 * and a little waste: of what live blocks waste not all is taken from what may lie idle. A program
 * whose blocks lie in larger ones could not keep what it uses in turns. */
static uint64_t most_held(const struct device *device, uint64_t in_use) {
    uint64_t peak = in_use > device->peak_in_use ? in_use : device->peak_in_use;
    uint64_t little = peak / 32 + IDLE_SLACK / 5, waste = device->over_size;
    return peak + peak / 5 + IDLE_SLACK + device->bounds.yielded +
           (waste < little ? waste : little);
}

uint64_t idle_bound_room_to_grow(const struct device *device) {
    lock_check_held(LOCK_POOL);
    uint64_t held = device->held, most = most_held(device, device->in_use);
    uint64_t room = most > held ? most - held : 0;
    return !device_idle(device) || room < device->bounds.until_asked ? room
                                                                     : device->bounds.until_asked;
}

static uint64_t allowed_idle(const struct pool *pool, const struct device *device, size_t growth) {
    uint64_t live = device->live + growth, held = most_held(device, device->in_use + growth);
    uint64_t automatic = held > live ? held - live : 0, most = most_idle(device);
    return limit_in_bytes(&pool->config.max_idle, device->total,
                          automatic < most ? automatic : most);
}

/* What the device's blocks once took may be held: that they take whole pages is no reason to give
 * them up. */
uint64_t idle_bound_excess(const struct pool *pool, const struct device *device, size_t growth) {
    lock_check_held(LOCK_POOL);
    uint64_t allowed = allowed_idle(pool, device, growth), idle = device_idle(device);
    bool once_live = device->memory == POOL_DEVICE && device->held + growth <= device->peak_live;
    bool own_rule = pool->config.max_idle.kind == LIMIT_AUTO;
    if (idle <= allowed || (own_rule && once_live))
        return 0;
    return own_rule && pool->keeper->cuts ? suballocation_excess(pool, device, allowed)
                                          : idle - allowed;
}

uint64_t idle_bound_room(const struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    uint64_t allowed = allowed_idle(pool, device, 0);
    return allowed > device_idle(device) ? allowed - device_idle(device) : 0;
}

/* Decay: what nobody needed for a while goes back to the driver.
 *
 * The least idle memory that there was throughout a period is what the program could have done
 * without: at the period's end that much is given up, whole blocks only, largest first. So no block
 * has an age of its own, and the sums are kept in passing. Checked now and then in malloc and free;
 * a program that makes neither call decays at its next. */

enum { LOOK_EVERY = 16 }; /* changes between two looks at the clock */

bool decay_is_due(const struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    const struct device_bounds *of = &device->bounds;
    return pool->config.idle_decay > 0 && device->changes - of->looked >= LOOK_EVERY &&
           (double)(pool_now(pool) - of->period_began) >= pool->config.idle_decay * 1e9;
}

uint64_t decay_due(struct pool *pool, struct device *device) {
    lock_check_held(LOCK_POOL);
    struct device_bounds *of = &device->bounds;
    if (pool->config.idle_decay <= 0 || device->changes - of->looked < LOOK_EVERY)
        return 0;
    of->looked = device->changes;
    uint64_t now = pool_now(pool);
    if ((double)(now - of->period_began) < pool->config.idle_decay * 1e9)
        return 0;
    uint64_t due = of->period_began ? of->least_idle : 0;
    of->period_began = now;
    of->least_idle = device_idle(device);
    return due;
}
