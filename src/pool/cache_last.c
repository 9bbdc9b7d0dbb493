/* The free of a context's last live block, which waits (wait.c), where the thread's cache is the
 * only one in use: a program that allocates, launches and frees one block in turn never goes the
 * long way.
 *
 * Afterwards no block is live, so the cache has no sentinel: each free goes past quick_free, and
 * comes here, until the cache is stopped. What goes the long way looks for another sentinel. */
#include "order/order.h"
#include "pool/cache_parts.h"
#include "pool/internal.h"

/* Whether nothing of the context is live but one block. Cache locked. */
static bool is_one_live(const struct cache *cache) {
    cache_check_locked(cache);
    const uint64_t *sums = cache->sums;
    return cache->context->live_blocks + sums[SUM_fresh] + sums[SUM_hits] - sums[SUM_frees] == 1;
}

/* Whether the wait is one for the legacy stream's work: where other frees may owe theirs it is
 * known that nothing else could be waited for, but for streams. Cache locked. */
static bool awaits_legacy(const struct pool *pool, const struct cache *cache) {
    cache_check_locked(cache);
    const struct driver *driver = pool->driver;
    return cache->alone && cache->context->frees_quickly &&
           !order_has_streams_about(&pool->order) && driver->event_create && driver->event_record &&
           driver->event_synchronize && driver->thread_exchange_capture_mode;
}

/* The last live block, if that is freed here: it waits from now on. NULL: not here. Cache locked.
 */
static struct pool_block *begin(const struct pool *pool, struct cache *cache, CUdeviceptr pointer,
                                struct cache_bin **bin) {
    cache_check_locked(cache);
    struct pool_block *block =
        awaits_legacy(pool, cache) ? pointer_map_find(&pool->map, pointer) : NULL;
    if (!block || block->context != cache->context || !is_one_live(cache) ||
        !(*bin = cache_bin_of(cache, block, true)) || !cache_claim(block))
        return NULL;
    block->state = BLOCK_WAITING;
    cache->asking++;
    return block;
}

/* A capture may begin on another thread meanwhile: see wait.c. *event: made if it is NULL. Lock not
 * held. */
static CUresult wait_for_work(struct pool *pool, CUevent *event) {
    lock_check_none();
    const struct driver *driver = pool->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUresult result = CUDA_SUCCESS;
    if (!pool_gate_enter(pool))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!*event)
        result = driver->event_create(event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS)
        result = driver->event_record(*event, CU_STREAM_LEGACY);
    pool_gate_leave(pool);
    if (result != CUDA_SUCCESS || PLANTED(no_wait))
        return result;
    driver->thread_exchange_capture_mode(&mode);
    result = driver->event_synchronize(*event);
    driver->thread_exchange_capture_mode(&mode);
    return result;
}

/* Keeps the block in the cache, and the event. False: the cache was stopped meanwhile, or may keep
 * it no more. */
static bool keep_here(struct cache *cache, struct cache_bin *bin, struct pool_block *block,
                      CUevent event, uint64_t stops) {
    if (!cache_lock(cache))
        return false;
    if (cache->stops != stops || cache->context != block->context || !cache->key) {
        cache_unlock(cache);
        return false;
    }
    size_t bytes = block->requested;
    block->requested = 0;
    cache_push(cache, bin, block);
    cache_count_free(cache, bin, bytes);
    cache->asking--;
    cache->waited++;
    cache->last_event = event;
    cache->context->sentinel = NULL;
    cache->sentinel = NULL;
    cache->freeable = pointer_table_empty;
    cache_unlock(cache);
    return true;
}

bool cache_free_last(struct pool *pool, struct cache *cache, CUdeviceptr pointer,
                     struct pool_block **waited, CUresult *result) {
    cache_check_locked(cache);
    *waited = NULL;
    struct cache_bin *bin;
    struct pool_block *block = begin(pool, cache, pointer, &bin);
    uint64_t stops = cache->stops;
    CUevent event = cache->last_event;
    cache_unlock(cache);
    if (!block)
        return false;
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    stats_add(STATS_free_waited, 1);
    stats_wait(WAIT_REASON_last_block);
    *result = wait_for_work(pool, &event);
    stats_add(STATS_wait_ns, clock_ns(CLOCK_MONOTONIC) - began);
    if (*result == CUDA_SUCCESS && keep_here(cache, bin, block, event, stops))
        return true;
    if (*result != CUDA_ERROR_NOT_SUPPORTED)
        pool_note_error(pool, *result);
    pool_lock(pool);
    cache->asking--;
    if (cache->context == block->context && !cache->last_event) /* else it died with the context */
        cache->last_event = event;
    *waited = block;
    return true;
}
