/* The public C functions but those that allocate (api_memory.c). */
#include "poolcuda.h"

#include "interpose/hooks.h"
#include "interpose/state.h"
#include "interpose/surroundings.h"
#include "observe/stats.h"
#include "pool_options.h"
#include "site_tag.h"

#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC const char *poolcuda_version(void) {
    return POOLCUDA_VERSION;
}

PUBLIC size_t poolcuda_trim(int device, size_t bytes) {
    struct pool *pool = thread_marks.inside ? NULL : state_pool();
    if (!pool)
        return 0;
    thread_marks.inside = true;
    if (state_check())
        check_make_room(state_check());
    size_t released = pool_release(pool, device, bytes);
    thread_marks.inside = false;
    return released;
}

/* --- figures --- */

static enum poolcuda_status status(void) {
    if (!state_enabled())
        return POOLCUDA_DISABLED;
    if (!surroundings_hooked())
        return POOLCUDA_LATE;
    return hooks_load() ? POOLCUDA_OK : POOLCUDA_NO_CUDA;
}

static void fill(struct poolcuda_stats *stats, struct pool *pool, int device) {
    struct pool_usage figures;
    pool_usage(pool, device, &figures);
    stats->held = figures.held;
    stats->in_use = figures.in_use;
    stats->idle = figures.idle;
    stats->waste = figures.waste;
    stats->peak_live = figures.peak_live;
    stats->peak_held = figures.peak_held;
    stats->live_blocks = figures.live_blocks;
    stats->idle_blocks = figures.idle_blocks;
    stats->allocations = figures.allocations;
    stats->hits = figures.hits;
    stats->frees = figures.frees;
    stats->oom_events = figures.oom_events;
    stats->oom_rescued = figures.oom_rescued;
    stats->driver_allocs = stats_get(STATS_driver_allocs);
    stats->driver_frees = stats_get(STATS_driver_frees);
    stats->waits = stats_get(STATS_free_waited) + stats_get(STATS_waits_paid);
    stats->fence_waits = stats_get(STATS_fences_waited);
}

PUBLIC int poolcuda_stats(int device, struct poolcuda_stats *stats) {
    /* Where the first version's struct ended. */
    enum { FIRST_SIZE = offsetof(struct poolcuda_stats, fence_waits) + sizeof(uint64_t) };
    struct poolcuda_stats ours = {.size = sizeof ours};
    if (!stats || stats->size < FIRST_SIZE || device < POOLCUDA_ALL_DEVICES)
        return POOLCUDA_INVALID;
    enum poolcuda_status result = status();
    struct pool *pool = state_pool();
    if (pool)
        fill(&ours, pool, device);
    size_t known = stats->size < sizeof ours ? stats->size : sizeof ours;
    memset(stats, 0, stats->size);
    memcpy(stats, &ours, known);
    stats->size = known;
    return result;
}

/* --- limits --- */

static const uint64_t most_percent = 100000; /* thousandths of a percent */
static const double longest_decay = 86400;   /* seconds */

static bool to_limit(struct limit *limit, uint64_t value) {
    if (value == POOLCUDA_AUTO) {
        *limit = (struct limit){.kind = LIMIT_AUTO};
    } else if (value & POOLCUDA_SHARE) {
        value &= ~POOLCUDA_SHARE;
        *limit = (struct limit){.kind = LIMIT_PERCENT, .percent = (double)value / 1000};
        return value <= most_percent;
    } else {
        *limit = (struct limit){.kind = LIMIT_BYTES, .bytes = value};
    }
    return true;
}

static uint64_t from_limit(const struct limit *limit) {
    switch (limit->kind) {
    case LIMIT_BYTES:
        return limit->bytes < POOLCUDA_SHARE ? limit->bytes : POOLCUDA_SHARE - 1;
    case LIMIT_PERCENT:
        return POOLCUDA_PERCENT(limit->percent);
    case LIMIT_AUTO:
        break;
    }
    return POOLCUDA_AUTO;
}

static void ignore(const char *line) {
    (void)line;
}

/* The options' own defaults, whatever the environment says. */
static struct pool_config defaults(void) {
    char *nothing[] = {NULL};
    struct options options;
    options_parse(&options, nothing, ignore);
    return pool_config_from(&options);
}

static bool to_decay(double *seconds, uint64_t value) {
    *seconds = value == POOLCUDA_AUTO ? defaults().idle_decay : (double)value / 1000;
    return *seconds <= longest_decay;
}

static bool to_throttle(double *ratio, uint64_t value) {
    uint64_t share = value & ~POOLCUDA_SHARE;
    *ratio =
        value == POOLCUDA_AUTO ? defaults().throttle_ratio : (double)share / (double)most_percent;
    return value == POOLCUDA_AUTO || (value & POOLCUDA_SHARE && share <= most_percent);
}

PUBLIC int poolcuda_set_limit(enum poolcuda_limit limit, uint64_t value) {
    struct pool_config config;
    unsigned setting = 0;
    bool valid = false;
    switch (limit) {
    case POOLCUDA_LIMIT_MAX_IDLE:
        setting = POOL_SET_MAX_IDLE;
        valid = to_limit(&config.max_idle, value);
        break;
    case POOLCUDA_LIMIT_MAX_WASTE:
        setting = POOL_SET_MAX_WASTE;
        valid = to_limit(&config.max_waste, value);
        break;
    case POOLCUDA_LIMIT_IDLE_DECAY:
        setting = POOL_SET_IDLE_DECAY;
        valid = to_decay(&config.idle_decay, value);
        break;
    case POOLCUDA_LIMIT_THROTTLE:
        setting = POOL_SET_THROTTLE_RATIO;
        valid = to_throttle(&config.throttle_ratio, value);
        break;
    }
    if (!valid)
        return POOLCUDA_INVALID;
    return state_configure(&config, setting) ? POOLCUDA_OK : POOLCUDA_DISABLED;
}

PUBLIC int poolcuda_get_limit(enum poolcuda_limit limit, uint64_t *value) {
    struct pool_config config;
    if (!value || limit < POOLCUDA_LIMIT_MAX_IDLE || limit > POOLCUDA_LIMIT_THROTTLE)
        return POOLCUDA_INVALID;
    *value = 0;
    if (!state_get_config(&config))
        return POOLCUDA_DISABLED;
    switch (limit) {
    case POOLCUDA_LIMIT_MAX_IDLE:
        *value = from_limit(&config.max_idle);
        break;
    case POOLCUDA_LIMIT_MAX_WASTE:
        *value = from_limit(&config.max_waste);
        break;
    case POOLCUDA_LIMIT_IDLE_DECAY:
        *value = (uint64_t)(config.idle_decay * 1000 + 0.5);
        break;
    case POOLCUDA_LIMIT_THROTTLE:
        *value = POOLCUDA_PERCENT(config.throttle_ratio * 100);
        break;
    }
    return POOLCUDA_OK;
}

/* --- tags --- */

PUBLIC void poolcuda_site_push(const char *tag) {
    site_tag_push(tag);
}

PUBLIC void poolcuda_site_pop(void) {
    site_tag_pop();
}
