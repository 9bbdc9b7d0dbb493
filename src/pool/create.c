/* The beginning of a pool. */
#include "pool/internal.h"

#include <stdlib.h>

void pool_config_changed(struct pool *pool) {
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
    pool_config_changed(pool);
    order_init(&pool->order, driver);
    /* whether the program uses streams of threads' own, if that matters: fence.c */
    atomic_store(&pool_per_thread_wanted, !driver->ctx_record_event);
    return pool;
}
