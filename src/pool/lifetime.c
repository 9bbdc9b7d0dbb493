/* The beginning and end of a pool, what a fork of the process leaves of it, and its settings.
 *
 * Of the configuration all that may change while the pool runs is read under the lock each time it
 * is needed, so a change takes effect from the next allocation or free on. What was derived from it
 * and kept is forgotten or derived anew here. */
#include "pool/inside.h"
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

static void reset_locks(struct pool *pool) {
    pool->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

struct pool *pool_create(const struct pool_config *config, const struct driver *driver) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return NULL;
    reset_locks(pool);
    pool->follower = cache_follower;
    pointer_map_init(&pool->map);
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

/* Called with the lock held, or by a forked child that has inherited it so. */
static void drop_everything(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    cache_forget(pool);
    struct context *context, *next_context;
    struct device *device;
    struct site_record *record, *next_record;
    /* Events of one context are in fences of another: they go before any context does. */
    LIST_FOREACH (context, &pool->contexts, link)
        context->ended = true;
    fence_forget_streams(pool);
    pool->ends_under_way = 0; /* of threads that a child does not have */
    LIST_FOREACH (context, &pool->contexts, link)
        fence_forget(context);
    ended_contexts_forget(pool);
    for (context = LIST_FIRST(&pool->contexts); context; context = next_context) {
        next_context = LIST_NEXT(context, link);
        context_destroy_sites(context);
        free(context);
    }
    LIST_INIT(&pool->contexts);
    address_index_destroy(pool);
    while ((device = LIST_FIRST(&pool->devices))) {
        LIST_REMOVE(device, link);
        free(device);
    }
    HASH_ITER (by_key, pool->site_records, record, next_record) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DELETE(by_key, pool->site_records, record);
        free(record);
    }
    context_forget_all_created(pool);
    memory_pools_forget(pool);
    captures_forget(pool);
    wait_forget(pool);
    pitch_forget_all(pool);
    ledger_destroy_records(pool);
    pool->peak_live = pool->peak_held = 0;
}

void pool_destroy(struct pool *pool) {
    if (!pool)
        return;
    pool_lock(pool);
    struct context *context;
    struct device *device;
    LIST_FOREACH (context, &pool->contexts, link)
        cache_close(pool, context);
    LIST_FOREACH (device, &pool->devices, link)
        if (device->stats) { /* which say from now on what other pools have of it */
#define DEVICE_FIGURE(name, sums, help) stats_grow(&device->stats->name, 0 - device->name);
#include "observe/counters.def"
        }
    drop_everything(pool);
    pool_unlock(pool);
    free(pool);
}

void pool_fork_prepare(struct pool *pool) {
    pool_lock(pool);
}

void pool_fork_parent(struct pool *pool) {
    pool_unlock(pool);
}

void pool_forget_after_fork(struct pool *pool) {
    inside_forget();
    drop_everything(pool);
    atomic_store(&pool->captures, 0);
    atomic_store(&pool->begun, 0);
    atomic_store(&pool->close_turn, false);
    pool->gate_lost = 0;
    atomic_store(&pool->gate_users, 0);
    atomic_store(&pool->resume_waiters, 0);
    lock_check_drop(LOCK_POOL);
    reset_locks(pool);
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
        LIST_FOREACH (device, &pool->devices, link)
            headroom_shrinks(device, UINT64_MAX);
    pool_unlock(pool);
}

void pool_get_config(struct pool *pool, struct pool_config *config) {
    pool_lock(pool);
    *config = pool->config;
    pool_unlock(pool);
}
