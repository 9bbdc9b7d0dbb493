/* The public C functions but those that allocate (api_memory.c). */
#include "poolcuda.h"

#include "counters/stats.h"
#include "interpose/hooks.h"
#include "interpose/state.h"
#include "interpose/surroundings.h"
#include "options/pool_options.h"
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
    state_enter();
    if (state_check())
        check_make_room(state_check());
    size_t released = pool_release(pool, device, bytes);
    state_end_call();
    return released;
}

/* --- figures --- */

static enum poolcuda_status status(void) {
    if (!state_enabled())
        return POOLCUDA_DISABLED;
    if (!surroundings_hooked())
        return POOLCUDA_LATE;
    return real_load() ? POOLCUDA_OK : POOLCUDA_NO_CUDA;
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

/* What the values of a limit are, to the program. */
enum unit { UNIT_NONE, UNIT_BYTES, UNIT_MILLISECONDS, UNIT_SHARE };

/* The options that are limits, by enum poolcuda_limit. */
static const struct limit_row {
    enum unit unit; /* NONE: there is no such limit */
    enum option_index option;
    unsigned setting;
    size_t offset; /* in struct pool_config */
} limit_rows[] = {
#define LIMIT_API(limit, unit) POOLCUDA_LIMIT_##limit
#define UNIT_API(limit, unit)  UNIT_##unit
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_API_##when([LIMIT_##when] = {UNIT_##when, OPTION_INDEX_##field, POOL_SET_##field,    \
                                           offsetof(struct pool_config, field)}, )
#include "options/options.def"
#undef OPTION
};

static const struct limit_row *find_limit(enum poolcuda_limit limit) {
    bool inside = limit > 0 && limit < sizeof limit_rows / sizeof limit_rows[0];
    return inside && limit_rows[limit].unit != UNIT_NONE ? &limit_rows[limit] : NULL;
}

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

static bool in_range(const struct limit_row *row, double number) {
    const struct option_info *info = &option_table[row->option];
    return number >= info->minimum && number <= info->maximum;
}

/* What the program asks for, in place of the default that `config` has. */
static bool to_config(struct pool_config *config, const struct limit_row *row, uint64_t value) {
    void *field = (char *)config + row->offset;
    bool automatic = value == POOLCUDA_AUTO, share = value & POOLCUDA_SHARE;
    switch (row->unit) {
    case UNIT_BYTES:
        return to_limit(field, value);
    case UNIT_MILLISECONDS:
        if (!automatic)
            *(double *)field = (double)value / 1000;
        return in_range(row, *(double *)field);
    case UNIT_SHARE:
        if (!automatic)
            *(double *)field = (double)(value & ~POOLCUDA_SHARE) / (double)most_percent;
        return (automatic || share) && in_range(row, *(double *)field);
    case UNIT_NONE:
        break;
    }
    return false;
}

static uint64_t from_config(const struct pool_config *config, const struct limit_row *row) {
    const void *field = (const char *)config + row->offset;
    switch (row->unit) {
    case UNIT_BYTES:
        return from_limit(field);
    case UNIT_MILLISECONDS:
        return (uint64_t)(*(const double *)field * 1000 + 0.5);
    case UNIT_SHARE:
        return POOLCUDA_PERCENT(*(const double *)field * 100);
    case UNIT_NONE:
        break;
    }
    return 0;
}

PUBLIC int poolcuda_set_limit(enum poolcuda_limit limit, uint64_t value) {
    const struct limit_row *row = find_limit(limit);
    struct pool_config config = defaults();
    if (!row || !to_config(&config, row, value))
        return POOLCUDA_INVALID;
    return state_configure(&config, row->setting) ? POOLCUDA_OK : POOLCUDA_DISABLED;
}

PUBLIC int poolcuda_get_limit(enum poolcuda_limit limit, uint64_t *value) {
    const struct limit_row *row = find_limit(limit);
    struct pool_config config;
    if (!value || !row)
        return POOLCUDA_INVALID;
    *value = 0;
    if (!state_get_config(&config))
        return POOLCUDA_DISABLED;
    *value = from_config(&config, row);
    return POOLCUDA_OK;
}

/* --- tags --- */

PUBLIC void poolcuda_site_push(const char *tag) {
    site_tag_push(tag);
}

PUBLIC void poolcuda_site_pop(void) {
    site_tag_pop();
}
