/* Allocations. A request of `bytes`, rounded to `size` by the keeper, from a site in the current
 * context is served by the first of these that can:
 *
 *  1. The thread's cache: an idle block of this site and size, without the pool's lock
 *     (quick.c). A miss that nothing idle could serve asks the driver there (cache_miss).
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
#include "pool/cache_stopped.h"

/* Misses where nothing idle serves: what the driver gives is counted in the thread's cache, and
 * recorded when caches are merged. */

/* Whether a thread has freed anything since its cache was stopped. */
static bool has_freed(const struct cache *cache) {
    return __atomic_load_n(&cache->sums[SUM_frees], __ATOMIC_RELAXED) != 0;
}

static bool is_any_freed(const struct pool *pool, const struct cache *own) {
    bool freed = has_freed(own);
    for (int i = 0; i < pool->cache_count && !freed; i++)
        freed = has_freed(pool->caches[i]);
    return freed;
}

/* Whether an earlier call has found out that nothing idle serves, and nothing has become idle
 * since. */
static bool is_known_to_miss(const struct cache *cache, const struct cache_site *known,
                             uintptr_t site, size_t bytes) {
    return known->id == site && known->bytes == bytes && known->stamp == cache_stamp(cache) &&
           known->size <= cache->may_grow;
}

enum look {
    LOOK_NOTHING, /* nothing serves, and nothing need be given back or asked before memory grows */
    LOOK_NO_ROOM, /* nothing serves, and something may have to be given back before */
    LOOK_SERVED,
    LOOK_ELSEWHERE, /* not for the cache */
};

/* Learns of the miss what the long way would. False: it is to be taken. */
static bool learn(struct cache *cache, struct site *site, size_t size) {
    if (size < site->least_missed)
        return false;
    if (size > site->largest_missed)
        return cache_learn(cache, site, size);
    __atomic_store_n(&site->growing, 0, __ATOMIC_RELAXED);
    return true;
}

/* Remembers that nothing idle serves, and that the driver is asked. */
static void remember(struct cache *cache, struct cache_site *known, size_t bytes, size_t size) {
    if (!cache->alone)
        return;
    known->bytes = bytes;
    known->size = size;
    known->stamp = cache_stamp(cache);
    cache->may_grow -= size < cache->may_grow ? size : cache->may_grow;
}

/* Looks for a block that serves, which goes live: *pointer. Cache locked. */
static enum look look(const struct pool *pool, struct cache *cache, struct cache_site *known,
                      uintptr_t site, CUdeviceptr *pointer, size_t bytes, size_t size) {
    cache_check_locked(cache);
    if (!known->site || known->id != site || !size)
        return LOOK_ELSEWHERE;
    /* Each site counts in one cache. */
    bool counts = cache->spare && known->site->record->counting == cache;
    if (!cache->nothing_idle || is_any_freed(pool, cache)) {
        size_t kept;
        bool none = !cache_may_have(cache, size, &kept);
        const struct pool_block *block =
            none ? NULL : cache_serve_larger(cache, known->site, bytes, size, kept, &none);
        if (block) {
            *pointer = block->pointer;
            return LOOK_SERVED;
        }
        if (!none || !cache->alone)
            return LOOK_ELSEWHERE;
        if (size > cache->may_grow)
            return counts ? LOOK_NO_ROOM : LOOK_ELSEWHERE;
    }
    return counts && learn(cache, known->site, size) ? LOOK_NOTHING : LOOK_ELSEWHERE;
}

static void count_fresh(struct cache *cache, struct stats_site *site, size_t bytes, size_t size) {
    if (!cache->nothing_idle)
        cache_note_taken(cache); /* before what is held grows */
    stats_grow(&site->misses, 1);
    stats_grow(&site->held_blocks, 1);
    stats_grow(&site->held_bytes, size);
    cache_count(cache, SUM_fresh, 1);
    cache_count(cache, SUM_held, size);
    cache_count_growth(cache, site, bytes, size);
}

/* Asks the driver for a request of the site, with a spare record. Not inlined, so that what a look
 * needs is no burden to calls that need none. Cache locked on entry, not on return. */
__attribute__((noinline)) static bool ask(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                                          size_t size, struct cache *cache, struct site *own) {
    cache_check_locked(cache);
    struct pool_block *block = cache->spare;
    cache->spare = block->next;
    block->size = size;
    block->asked = bytes;
    block->context = cache->context;
    block->site = own;
    cache->asking++;
    cache_unlock(cache);
    CUdeviceptr address;
    CUresult result = pool->driver->mem_alloc(&address, size);
    bool open = cache_lock(cache);
    if (__builtin_expect(result != CUDA_SUCCESS || !open || cache->context != block->context ||
                             !cache->key,
                         0)) {
        if (open)
            cache_unlock(cache);
        take_late(pool, block, result == CUDA_SUCCESS ? address : 0);
        pool_lock(pool);
        cache->asking--;
        pool_unlock(pool);
        *pointer = result == CUDA_SUCCESS ? address : *pointer;
        return result == CUDA_SUCCESS;
    }
    cache->asking--;
    *pointer = block->pointer = address;
    block->bin = 0;
    block->cached = block->in_driver_pool = block->releasable = false;
    cache_make_live(block, bytes);
    block->next = cache->fresh;
    cache->fresh = block;
    count_fresh(cache, own->stats, bytes, size);
    cache_unlock(cache);
    return true;
}

/* Cache locked on entry, not on return. */
__attribute__((noinline)) static bool look_and_ask(struct pool *pool, CUdeviceptr *pointer,
                                                   size_t bytes, struct cache *cache,
                                                   uintptr_t site) {
    cache_check_locked(cache);
    struct cache_site *known = cache_place_for(cache, site);
    size_t size = round_physical(bytes);
    enum look found = look(pool, cache, known, site, pointer, bytes, size);
    if (found == LOOK_NO_ROOM) {
        if (!cache_make_room(pool, cache, known->site, size))
            return false;
        found = LOOK_NOTHING;
    }
    if (found == LOOK_NOTHING && cache->spare) {
        remember(cache, known, bytes, size);
        return ask(pool, pointer, bytes, size, cache, known->site);
    }
    cache_unlock(cache);
    return found == LOOK_SERVED;
}

bool cache_miss(struct pool *pool, CUdeviceptr *pointer, size_t bytes, uintptr_t site) {
    lock_check_none();
    struct cache *cache = cache_mine.cache;
    const struct cache_site *known = cache_place_for(cache, site);
    if (!cache->spare || !is_known_to_miss(cache, known, site, bytes))
        return look_and_ask(pool, pointer, bytes, cache, site);
    cache->may_grow -= known->size;
    return ask(pool, pointer, bytes, known->size, cache, known->site);
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

/* As malloc_kind; where a green context was current, its owner is. */
static CUresult malloc_in_owner(struct pool *pool, const struct pool_kind *kind,
                                CUdeviceptr *pointer, struct request *request,
                                const struct call_site *key) {
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

CUresult malloc_kind(struct pool *pool, const struct pool_kind *kind, CUdeviceptr *pointer,
                     struct request *request, const struct call_site *key) {
    lock_check_none();
    bool pushed = context_has_green(pool) && context_push_owner(pool);
    CUresult result = malloc_in_owner(pool, kind, pointer, request, key);
    if (pushed)
        pool_pop_device(pool, true);
    return result;
}

CUresult malloc_in_order(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
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
