/* The end of a pool, and what a fork of the process leaves of it. */
#include "pool/cache_stopped.h"
#include "pool/context_owners.h"
#include "pool/inside.h"
#include "pool/internal.h"

#include <stdlib.h>

/* Lock held. */
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
    pool->ends_under_way = 0;
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
    while ((device = TAILQ_FIRST(&pool->devices))) {
        TAILQ_REMOVE(&pool->devices, device, link);
        source_forget_shares(device);
        free(device);
    }
    HASH_ITER (by_key, pool->site_records, record, next_record) {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it cannot follow uthash
        HASH_DELETE(by_key, pool->site_records, record);
        free(record);
    }
    context_forget_owners(pool);
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
    TAILQ_FOREACH (device, &pool->devices, link)
        if (device->stats) { /* which say from now on what other pools have of it */
#define DEVICE_FIGURE(name, sums, help) stats_grow(&device->stats->name, 0 - device->name);
#include "counters/counters.def"
        }
    drop_everything(pool);
    pool_unlock(pool);
    free(pool);
}

/* A signal's handler may have forked in the middle of a call, which then goes on in the child: it
 * finds no lock taken by a thread that is not there. */
void pool_leave_after_fork(struct pool *pool, struct pool_config *config) {
    *config = pool->config;
    inside_forget();
    atomic_store(&order_word, 0);
    pool->order.lock = pool->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < pool->active_count; i++)
        cache_unlock(pool->active[i]);
}
