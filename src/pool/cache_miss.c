/* Misses where nothing idle serves: what the driver gives is counted in the thread's cache, and
 * recorded when caches are merged. */
#include "pool/cache_parts.h"
#include "pool/cache_stopped.h"

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
        bool none;
        const struct pool_block *block = cache_serve_larger(cache, known->site, bytes, size, &none);
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
    stats_grow(&site->allocated_bytes, bytes);
    stats_grow(&site->held_blocks, 1);
    stats_grow(&site->held_bytes, size);
    stats_grow(&site->live_blocks, 1);
    stats_grow(&site->live_bytes, size);
    stats_raise(&site->peak_live_bytes, &site->live_bytes);
    cache_count(cache, SUM_fresh, 1);
    cache_count(cache, SUM_held, size);
    cache_count_growth(cache, bytes, size);
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
