/* What becomes a live block for a request where nothing that is idle serves as usual: one whose
 * free is not over, one larger than the ratio lets, and what the driver has given a cache too late.
 */
#include "pool/internal.h"

/* Takes a block that was freed in the order of the request's stream: it need not wait. Lock held.
 */
static struct pool_block *take_in_stream(struct pool *pool, const struct request *request) {
    lock_check_held(LOCK_POOL);
    if (!request->stream || pool->config.zero) /* which would clear it in another stream */
        return NULL;
    struct context *context = request->context;
    struct fit fit = waste_bound_fit(&pool->config, context->device, request->bytes, request->size);
    struct pool_block *block = fence_find_freed_in(context, request->stream, &fit);
    if (!block || (!fit.steal && block->site != request->site))
        return NULL;
    ledger_take_out(pool, block);
    take_hand_out(pool, block, request->site, request->bytes,
                  block->site != request->site ? TAKEN_STOLEN : 0);
    stats_add(STATS_async_same_stream, 1);
    return block;
}

struct pool_block *take_deferred(struct pool *pool, const struct request *request) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    struct pool_block *block = take_in_stream(pool, request);
    if (block)
        return block;
    bool may_wait =
        pool->config.free_mode == POOL_FREE_DEFER && !request->stream && !pool->config.late_frees;
    fence_poll(pool, context);
    bool again = !context->ended;
    while (again) {
        block = pool_take(pool, context, request->site, request->bytes, request->size);
        again = !block && may_wait && fence_await(pool, context, request->site, request->size);
    }
    return block;
}

struct pool_block *pool_take_larger(struct pool *pool, const struct request *request, bool wastes) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    const uint64_t more =
        wastes ? UINT64_MAX
               : waste_left(context->device, waste_bound(&pool->config, context->device));
    const struct fit fit = {.bytes = request->bytes,
                            .size = request->size,
                            .ratio = (double)UINT64_MAX,
                            .surplus = more,
                            .steal = true,
                            .last = true};
    unsigned how = 0;
    cache_drain(pool, context);
    struct pool_block *block = take_kept(pool, context, request->site, &fit, &how);
    if (!block)
        return NULL;
    take_hand_out(pool, block, request->site, request->bytes, how);
    stats_add(STATS_oom_larger, 1);
    return block;
}

void take_late(struct pool *pool, struct pool_block *meant, CUdeviceptr pointer) {
    lock_check_none();
    struct context *context = meant->context;
    const struct obtained obtained = {.pointer = pointer, .size = meant->size};
    const struct request request = {context, meant->site, meant->asked, meant->size, NULL, NULL};
    pool_lock(pool);
    ledger_recycle(pool, meant);
    if (pointer) {
        stats_add(STATS_malloc_calls, 1);
        stats_add(STATS_driver_allocs, 1);
    }
    if (pointer && !context->ended) { /* and so the site is still there */
        stats_grow(&request.site->stats->misses, 1);
        device_count(context->device, 1, 0);
        take_obtained(pool, &request, &obtained);
    }
    pool_unlock(pool);
}
