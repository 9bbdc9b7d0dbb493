#include "base/placed.h"
#include "pool/internal.h"

bool bounds_ask_at_frees(const struct pool_config *config) {
    return config->site_keep || config->max_idle.kind != LIMIT_AUTO;
}

PLACED uint64_t waste_bound(const struct pool_config *config, const struct device *device) {
    lock_check_held(LOCK_POOL);
    if (PLANTED(oversize))
        return UINT64_MAX;
    uint64_t total = device->total, peak = device->peak_in_use, of_peak = peak / 10 + (40 << 20);
    uint64_t share = total / 200 * 3, above = peak < total ? (total - peak) / 8 : 0;
    if (device->frugal)
        share = total / 100;
    else if (above > share && device->changes - device->peaked > device->changes / 6 + 64)
        share = above < total / 50 ? above : total / 50;
    if (device->bounds.yielded)
        of_peak *= 2;
    return limit_in_bytes(&config->max_waste, total, share < of_peak ? share : of_peak);
}

/* What blocks of any size may waste: 1/512 of the device, since nobody has any need of the rest of
 * one that is nearly empty, and a program that is young, or misses often, makes fewer calls of the
 * driver so. Later a site's own block is served sooner than another's. Small requests that stay
 * would hold large blocks for ever, so blocks of about a request's size keep a part of the bound.
 */
static uint64_t spare_waste(const struct pool_config *config, const struct device *device,
                            uint64_t bound) {
    enum { YOUNG = 1024, SELDOM = 16 }; /* allocations; a miss in so many is seldom */
    uint64_t misses = device->allocations - device->hits;
    if (config->reuse_ratio < 2 || config->close_fit || device->frugal ||
        20 * device->peak_in_use >= device->total || device->bounds.missed >= MISSED_OFTEN ||
        device->allocations >= YOUNG + SELDOM * misses)
        return 0;
    uint64_t part = bound / 4 * 3, share = device->total / 512;
    return part < share ? part : share;
}

uint64_t waste_left(const struct device *device, uint64_t allowed) {
    lock_check_held(LOCK_POOL);
    return allowed > device->over_size ? allowed - device->over_size : 0;
}

PLACED struct fit waste_bound_fit(const struct pool_config *config, const struct device *device,
                                  size_t bytes, size_t size) {
    lock_check_held(LOCK_POOL);
    double ratio = PLANTED(oversize) ? 1e9 : config->reuse_ratio;
    uint64_t bound = waste_bound(config, device), left = waste_left(device, bound);
    uint64_t spare = waste_left(device, spare_waste(config, device, bound));
    return (struct fit){.bytes = bytes,
                        .size = size,
                        .ratio = ratio,
                        .surplus = left,
                        .strict = spare ? left - spare : UINT64_MAX,
                        .steal = config->steal,
                        .little = device->saves,
                        .exact = device->exact};
}

bool headroom_may_lack(struct device *device, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    if (device->held == device->live || device->memory != POOL_DEVICE)
        return false;
    if (grown >= device->bounds.until_asked)
        return true;
    device->bounds.until_asked -= grown;
    return false;
}

void headroom_shrinks(struct device *device, uint64_t grown) {
    lock_check_held(LOCK_POOL);
    uint64_t *until_asked = &device->bounds.until_asked;
    *until_asked -= grown < *until_asked ? grown : *until_asked;
}

uint64_t *given_up_place(struct device *device, size_t size) {
    lock_check_held(LOCK_POOL);
    uint64_t class = (uint64_t)size * 0x9e3779b97f4a7c15u >> (64 - GIVEN_UP_BITS);
    return &device->bounds.given_up[class];
}

void given_up_miss(struct device *device, size_t size) {
    lock_check_held(LOCK_POOL);
    uint64_t *place = given_up_place(device, size);
    if (__builtin_expect(*place != size, 1))
        return;
    *place = 0;
    bounds_missed(device);
}

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
static inline uint64_t most_held(const struct device *device, uint64_t in_use) {
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

static inline uint64_t allowed_idle(const struct pool *pool, const struct device *device,
                                    size_t growth) {
    uint64_t live = device->live + growth, held = most_held(device, device->in_use + growth);
    uint64_t automatic = held > live ? held - live : 0, most = most_idle(device);
    return limit_in_bytes(&pool->config.max_idle, device->total,
                          automatic < most ? automatic : most);
}

/* Bytes of idle suballocations that live ones keep from the driver. */
static uint64_t stranded_idle(const struct pool *pool, const struct device *device) {
    const struct context *context;
    uint64_t bytes = 0;
    LIST_FOREACH (context, &pool->contexts, link)
        bytes += context->device == device ? context->store.stranded : 0;
    return bytes;
}

/* What is to be given up of idle suballocations, of which `allowed` bytes may lie idle. */
static uint64_t suballocation_excess(const struct pool *pool, const struct device *device,
                                     uint64_t allowed) {
    uint64_t stranded = stranded_idle(pool, device);
    if (!stranded)
        return device_idle(device) - allowed;
    uint64_t little = device->peak_in_use / 16 + IDLE_SLACK / 4;
    uint64_t rest = device_idle(device) - stranded,
             stays = allowed > stranded ? allowed - stranded : 0;
    if (stays < little)
        stays = little;
    return rest > stays ? rest - stays : 0;
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

void decay_note_idle(struct device *device, int64_t idle) {
    lock_check_held(LOCK_POOL);
    if (idle < (int64_t)device->bounds.least_idle)
        device->bounds.least_idle = idle > 0 ? (uint64_t)idle : 0;
}
