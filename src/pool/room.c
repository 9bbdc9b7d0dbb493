/* Giving idle memory back because a device is out of memory: a round at a time, and only where the
 * driver's free waits for nothing. */
#include "policy/region.h"
#include "pool/internal.h"

enum { MOST_CONTEXTS = 64 };

/* The device's contexts, as far as they fit. Records of contexts stay when they end. Lock held. */
static int list_contexts(struct pool *pool, const struct device *device,
                         struct context **contexts) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    int count = 0;
    LIST_FOREACH (context, &pool->contexts, link) {
        context->resting = context->resting && context->device != device;
        if (context->device == device && !context->broken && count < MOST_CONTEXTS)
            contexts[count++] = context;
    }
    return count;
}

/* Asks each context of the device whether it rests. Where that cannot be asked (during a capture,
 * or of an old driver) it counts as resting: to fail for that would be worse. Lock held on entry
 * and return, not in between. */
static void look_at_contexts(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    struct context *contexts[MOST_CONTEXTS];
    bool resting[MOST_CONTEXTS];
    int count = list_contexts(pool, device, contexts);
    pool_unlock_between(pool);
    for (int i = 0; i < count; i++)
        resting[i] = quiet_ask(pool, contexts[i]) != REST_BUSY;
    pool_lock(pool);
    for (int i = 0; i < count; i++)
        contexts[i]->resting = resting[i];
}

/* Whether the context has something that the driver could have back. Lock held. */
static bool has_idle(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    cache_drain(pool, context);
    return context->store.unused || context->policy->victim(&context->store) ||
           fence_may_defer(context);
}

/* Collects regions of resting contexts whose blocks are deferred: their work is done, too. */
static void collect_deferred_regions(struct pool *pool, const struct device *device,
                                     struct release_list *releases) {
    struct context *context;
    struct pool_block *block;
    LIST_FOREACH (context, &pool->contexts, link)
        while (context->device == device && context->policy->cuts && !context->broken &&
               context->resting && (block = region_without_live(&context->store)))
            release_list_add(pool, releases, block);
}

/* The largest of what the device's resting contexts would give up first. */
static struct pool_block *next_victim(struct pool *pool, struct device *device) {
    struct pool_block *found = NULL;
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (!context->resting || context->device != device)
            continue;
        struct pool_block *block =
            release_next_victim(pool, &(struct release_scope){device, context, true});
        if (block && (!found || block->size > found->size))
            found = block;
    }
    return found;
}

/* Returns whether the driver has taken any back. Lock held. */
static bool give_back(struct pool *pool, struct device *device, size_t bytes, bool *any) {
    lock_check_held(LOCK_POOL);
    struct release_list releases = {.device = device};
    struct pool_block *block;
    release_collect_unused(pool, device, bytes, &releases);
    while (releases.bytes < bytes && (block = next_victim(pool, device))) {
        ledger_take_out(pool, block);
        release_list_add(pool, &releases, block);
    }
    if (releases.bytes < bytes)
        collect_deferred_regions(pool, device, &releases);
    size_t count = releases.count;
    *any = count > 0 || releases.unused;
    if (!release_list_give_back(pool, &releases))
        return false;
    stats_add(STATS_oom_released_blocks, count);
    return true;
}

static bool is_any_busy(struct pool *pool, const struct device *device) {
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->device == device && !context->broken && !context->resting &&
            has_idle(pool, context))
            return true;
    return false;
}

enum room room_make(struct pool *pool, struct device *device, size_t bytes) {
    bool any = true;
    release_refresh(pool, device);
    if (device->idle)
        look_at_contexts(pool, device);
    if (device->idle && !pool_driver_waits(pool) && !is_any_busy(pool, device))
        fence_drain(pool, device); /* what the driver does not wait for: it is over */
    for (int turn = 0; device->idle && any && turn < 2; turn++) /* it may refuse for the moment */
        if (give_back(pool, device, bytes, &any))
            return ROOM_MADE;
    if (device->releasing)
        return ROOM_COMING;
    return is_any_busy(pool, device) ? ROOM_BUSY : ROOM_NONE;
}

void room_poll_fences(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    static const size_t none_so_large = SIZE_MAX / 4; /* so the fences are looked at, and no more */
    struct context *contexts[MOST_CONTEXTS];
    int count = 0;
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->device == device && !context->broken && fence_may_defer(context) &&
            context->sites && count < MOST_CONTEXTS)
            contexts[count++] = context;
    for (int i = 0; i < count; i++)
        if (!contexts[i]->ended)
            fence_take(pool, contexts[i], contexts[i]->sites, none_so_large, none_so_large, false);
}
