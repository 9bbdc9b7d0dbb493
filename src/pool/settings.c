/* The settings of a pool that runs.
 *
 * Of the configuration all that may change while the pool runs is read under the lock each time it
 * is needed, so a change takes effect from the next allocation or free on. What was derived from it
 * and kept is forgotten or derived anew here. */
#include "pool/internal.h"

void pool_config_copy(struct pool_config *to, const struct pool_config *from, unsigned settings) {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_LIVE_##when(if (settings & POOL_SET_##field) to->field = from->field;)
#include "options/options.def"
#undef OPTION
}

void pool_set_config(struct pool *pool, const struct pool_config *config, unsigned settings) {
    struct device *device;
    struct context *context;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link) /* the store keeps the bounds */
        cache_drain(pool, context);
    pool_config_copy(&pool->config, config, settings);
    pool_config_changed(pool);
    if (settings & POOL_SET_throttle_ratio) /* the allowance was for the old headroom */
        TAILQ_FOREACH (device, &pool->devices, link)
            headroom_shrinks(device, UINT64_MAX);
    pool_unlock(pool);
}

void pool_get_config(struct pool *pool, struct pool_config *config) {
    pool_lock(pool);
    *config = pool->config;
    pool_unlock(pool);
}
