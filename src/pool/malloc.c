/* Allocations. A request of `bytes`, rounded to `size` by the keeper, from a site in the current
 * context is served by the first of these that can:
 *
 *  1. The thread's cache: an idle block of this site and size, without the pool's lock
 *     (quick_malloc). A miss that nothing idle could serve asks the driver there (cache_miss.c).
 *  2. The idle store, under the lock: what the keeper takes for the site and size. A block must be
 *     at least as large as the request, at most reuse_ratio times larger or waste little, and
 *     exceed it by no more than the waste bound leaves (bounds.h).
 *  3. Deferred blocks: one freed in the order of the request's stream, or one whose fence has
 *     passed. With POOLCUDA_FREE=defer the request may wait for a fence.
 *  4. The driver. Before that idle memory beyond the bounds is released if this needs no wait
 *     (release_before_growth); out of memory, out_of_memory.c releases more, and asks again.
 *
 * A request goes past the pool, straight to the driver and without a record, while a stream is
 * captured, after a sticky error, and once the driver has shut down. */
#include "base/placed.h"
#include "pool/cache_parts.h"

PLACED enum quick quick_malloc(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                               uintptr_t site, bool whole) {
    if (__builtin_expect(!pointer, 0))
        return QUICK_TRY;
    struct cache *cache = cache_open(pool, whole);
    if (__builtin_expect(!cache, 0))
        return QUICK_TRY;
    size_t size = round_physical(bytes);
    struct cache_bin *bin = NULL;
    if (!whole)
        bin = cache_table_find_near(&cache->table, site, size); /* the site is not 0 */
    else if (size)
        bin = cache_table_find(&cache->table, site, size);
    struct pool_block *block;
    if (__builtin_expect(bin && bin->head, 1)) {
        block = cache_pop(bin);
        __builtin_prefetch(bin->head, 1); /* another thread may have freed it */
        cache_make_live(block, bytes);
        *pointer = block->pointer;
        cache_count_hit(cache, bin, bytes, size);
    } else if (bin) {
        return cache_serve_other(cache, bin, pointer, bytes);
    } else if (whole && !cache->may_miss && (block = cache_serve_known(cache, site, bytes, size))) {
        *pointer = block->pointer;
    } else if (whole ? cache->may_miss
                     : cache->misses_near ||
                           (cache->may_miss &&
                            !cache_table_spills(cache_table_home(&cache->table, site, size)))) {
        return QUICK_MISS;
    } else if (!whole) {
        return cache_try_again(cache);
    } else {
        cache_unlock(cache);
        return QUICK_NO;
    }
    cache_unlock(cache);
    return QUICK_DONE;
}

/* Allocates `first` bytes of the driver if that is more than the request and it has so much, else
 * the request, releasing idle memory while it is out of memory. On success *block was found in the
 * pool meanwhile, or *obtained is the driver's, and has the address. Lock not held. */
static CUresult allocate_or_make_room(struct pool *pool, const struct request *request,
                                      size_t first, struct pool_block **block,
                                      struct obtained *obtained) {
    lock_check_none();
    *block = NULL;
    if (first > request->size &&
        source_obtain(pool, &request->context->kind, first, obtained) == CUDA_SUCCESS)
        return CUDA_SUCCESS;
    int round = atomic_load(&pool->release_rounds);
    CUresult result = allocate_from_driver(pool, request, request->size, obtained);
    return result == CUDA_SUCCESS
               ? result
               : make_room_and_allocate(pool, request, result, round, block, obtained);
}

/* Allocates past the pool: no record is made, so the free will go to the driver as well. Idle
 * memory must still not be the reason for an error. The request's context is NULL if there is none.
 * Lock not held. */
static CUresult malloc_past_pool(struct pool *pool, const struct pool_kind *kind,
                                 struct request *request, CUdeviceptr *pointer) {
    lock_check_none();
    struct pool_block *block;
    struct obtained obtained;
    if (!request->context)
        return malloc_without_context(pool, kind, pointer, request->bytes, request->pitch);
    request->size = request->bytes;
    CUresult result = allocate_or_make_room(pool, request, request->size, &block, &obtained);
    if (result == CUDA_SUCCESS)
        *pointer = obtained.pointer;
    return result;
}

/* Whether what a source has given may be or hold memory that was used before. */
static bool is_used(const struct obtained *obtained) {
    return obtained->stitched || obtained->in_driver_pool || obtained->block;
}

/* Before the driver is asked: gives up what will be too much. Lock held on entry, not on return. */
static void prepare_growth(struct pool *pool, const struct request *request, size_t size,
                           bool falls) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    /* Idle memory that is mapped anew makes live memory grow, but not what is held. */
    size_t growth = context->source->reuses ? 0 : size;
    if (!context->ended) { /* while a fence was waited for: the site is gone then */
        uint64_t due = decay_due(pool, context->device);
        if (due || take_find_misfit(pool, request, growth, falls) ||
            idle_bound_excess(pool, context->device, growth))
            release_before_growth(pool, request, growth, falls, due);
    }
    bool asks = context->device->unified && !context->ended &&
                headroom_may_lack(context->device, request->size);
    pool_unlock_between(pool);
    if (asks) /* such a machine has no error for what exceeds its memory: it ends programs */
        release_for_launches(pool, context, request->size);
}

/* Serves a miss: asks the driver and records what it gives. Lock held on entry, not on return. */
static CUresult malloc_from_driver(struct pool *pool, struct request *request,
                                   CUdeviceptr *pointer) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    struct pool_block *block;
    struct obtained obtained;
    bool falls;
    size_t size = take_size_to_ask(pool, request, &falls);
    prepare_growth(pool, request, size, falls);
    CUresult result = allocate_or_make_room(pool, request, size, &block, &obtained);
    if (result != CUDA_SUCCESS) {
        pool_note_error(pool, result);
        pool_grant_anew(pool);
        return result;
    }
    pool_lock(pool);
    if (!block)
        take_obtained(pool, request, &obtained);
    if (request->pitch && !block && !context->ended)
        pitch_learn(pool, request);
    bool lacks = !block && !obtained.stitched && headroom_may_lack(context->device, obtained.size);
    bool zero = pool->config.zero;
    pool_unlock(pool);
    *pointer = obtained.pointer;
    if (zero && (block || is_used(&obtained)))
        clear_memory(pool, context, *pointer, request->bytes);
    if (lacks)
        release_for_launches(pool, context, 0);
    return CUDA_SUCCESS;
}

/* Whether an idle block serves, live from now on. Once unlocked its record may be another block's,
 * if the context ends. Lock held on entry, and on return if false. */
static bool serve(struct pool *pool, const struct request *request, CUdeviceptr *pointer) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block =
        pool_take(pool, request->context, request->site, request->bytes, request->size);
    if (!block && context_may_defer(request->context))
        block = take_deferred(pool, request);
    if (!block || pool->config.zero)
        return block && clear_block(pool, block, pointer);
    *pointer = block->pointer;
    pool_unlock(pool);
    return true;
}

/* The site of a request in the current context, with the lock; or NULL, without it, if
 * the call is to go past the pool. *context may be NULL then. */
static struct site *open_request(struct pool *pool, const struct pool_kind *kind,
                                 const struct call_site *key, struct context **context) {
    bool capturing = atomic_load_explicit(&pool->captures, memory_order_acquire);
    bool down = atomic_load_explicit(&pool->down, memory_order_relaxed);
    *context = context_lock_current(pool, kind);
    stats_add(STATS_malloc_calls, 1);
    bool broken = *context && (*context)->broken;
    struct site *site =
        *context && !capturing && !down && !broken ? context_site(pool, *context, key) : NULL;
    if (*context)
        device_count((*context)->device, 1, 0);
    if (site) {
        stats_grow(&site->stats->misses, 1);
        return site;
    }
    pool_unlock(pool);
    if (capturing) {
        if (*context && PLANTED(query_in_capture))
            context_is_quiet(pool, *context);
        stats_add(STATS_capture_passed, 1);
        captures_passed(pool);
    } else if (down || broken)
        stats_add(STATS_passed_errors, 1);
    return NULL;
}

CUresult malloc_kind(struct pool *pool, const struct pool_kind *kind, CUdeviceptr *pointer,
                     struct request *request, const struct call_site *key) {
    lock_check_none();
    WITH_OWNER_CURRENT(pool);
    request->site = open_request(pool, kind, key, &request->context);
    count_by_kind(kind->memory, STATS_host_calls, STATS_managed_calls);
    if (!request->site)
        return malloc_past_pool(pool, kind, request, pointer);
    if (__builtin_expect(request->pitch != NULL, 0))
        pitch_apply(pool, request);
    if (!request->size || !serve(pool, request, pointer))
        return malloc_from_driver(pool, request, pointer);
    if (__builtin_expect(request->pitch != NULL, 0))
        *request->pitch->pitch = request->pitch->known;
    return CUDA_SUCCESS;
}

static CUresult malloc_in_order(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                                const struct call_site *key, CUstream stream) {
    size_t size = bytes ? pool->keeper->round(bytes) : 0;
    struct request request = {.bytes = bytes, .size = size, .stream = stream};
    if (pointer && size)
        return malloc_kind(pool, &kind_device, pointer, &request, key);
    stats_add(STATS_malloc_calls, 1);
    return pool->driver->mem_alloc(pointer, bytes);
}

CUresult pool_malloc_rest(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                          const struct call_site *key) {
    return malloc_in_order(pool, pointer, bytes, key, NULL);
}

CUresult malloc_in_stream(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                          const struct call_site *key, CUstream stream) {
    enum quick quick = quick_malloc(pool, pointer, bytes, site_id(key), true);
    bool served = quick == QUICK_DONE ||
                  (quick == QUICK_MISS && cache_miss(pool, pointer, bytes, site_id(key)));
    return served ? CUDA_SUCCESS : malloc_in_order(pool, pointer, bytes, key, stream);
}

CUresult pool_malloc(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                     const struct call_site *key) {
    return malloc_in_stream(pool, pointer, bytes, key, NULL);
}
