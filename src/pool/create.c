/* The beginning of a pool, and its settings.
 *
 * Of the configuration all that may change while the pool runs is read under the lock each time it
 * is needed, so a change takes effect from the next allocation or free on. What was derived from it
 * and kept is forgotten or derived anew here. */
#include "pool/internal.h"

#include <stdlib.h>

void pool_config_copy(struct pool_config *to, const struct pool_config *from, unsigned settings) {
#define OPTION(field, name, type, fallback, minimum, maximum, when, help)                          \
    OPTION_IF_LIVE_##when(if (settings & POOL_SET_##field) to->field = from->field;)
#include "options.def"
#undef OPTION
}

static void config_changed(struct pool *pool) {
    const struct pool_config *config = &pool->config;
    pool->caches_serve = pool->keeper->take_same && !config->zero && !bounds_ask_at_frees(config);
}

struct pool *pool_create(const struct pool_config *config, const struct driver *driver) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    pool->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    pool->follower = cache_follower;
    pointer_map_init(&pool->map);
    TAILQ_INIT(&pool->devices);
    pool->config = *config;
    pool->driver = driver;
    pool->keeper = config->policy ? config->policy->keeper : &keeper_site;
    pool->source = config->policy ? config->policy->source : &source_plain;
    config_changed(pool);
    order_init(&pool->order, driver);
    /* whether the program uses streams of threads' own, if that matters: fence.c */
    atomic_store(&pool_per_thread_wanted, !driver->ctx_record_event);
    return pool;
}

void pool_set_config(struct pool *pool, const struct pool_config *config, unsigned settings) {
    struct device *device;
    struct context *context;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link) /* the store keeps the bounds */
        cache_drain(pool, context);
    pool_config_copy(&pool->config, config, settings);
    config_changed(pool);
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
