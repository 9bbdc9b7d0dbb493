/* Hits and frees that need nothing but the calling thread's cache.
 *
 * Every instruction here is paid for by each allocation of a program (docs/benchmarks.md). So all
 * of it is in place of its calls, in two forms: `whole`, and one for the hooks, which leaves to
 * `whole` what happens now and then. The form for the hooks calls the driver, for the current
 * context, and at its end what needs none of its variables any more: so it has few registers to
 * save. */
#include "base/placed.h"
#include "order/order.h"
#include "pool/cache_parts.h"
#include "pool/free_parts.h"

/* The cache that may serve a call in the current context, locked; else NULL. */
__attribute__((always_inline)) static inline struct cache *cache_open(struct pool *pool,
                                                                      bool whole) {
    CUcontext handle = NULL;
    pool->driver->ctx_get_current(&handle); /* where it fails, no cache is there for NULL */
    uintptr_t key = cache_key(pool, handle);
    struct cache *cache = cache_mine.cache;
    if (__builtin_expect(cache_mine.key != key, 0) &&
        !(whole && (cache = cache_mine_among_others(key))))
        return NULL;
    if (__builtin_expect(!cache_try_lock(cache), 0) &&
        !(whole && (cache_lock(cache) || cache_lock_after_stop(pool, cache))))
        return NULL;
    if (__builtin_expect(cache->key == key && --cache->budget >= 0, 1) ||
        (whole && cache->key == key && cache_renew(cache)))
        return cache;
    cache_unlock(cache);
    return NULL;
}

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

/* Keeps the block in its bin, which is listed. Cache locked on entry, not on return. */
__attribute__((always_inline)) static inline enum quick
free_into(struct cache *cache, struct cache_bin *bin, struct pool_block *block) {
    cache_check_locked(cache);
    if (__builtin_expect(!cache_claim(block), 0))
        return cache_try_again(cache);
    size_t bytes = block->requested;
    block->requested = 0;
    if (__builtin_expect(cache->defers, 0)) {
        block->state = BLOCK_DEFERRED;
        block->freed_by = thread_marks.number;
        block->next = cache->deferred;
        cache->deferred = block;
        order_defers();
    } else {
        cache_push_listed(bin, block);
        order_owe_quickly();
    }
    cache_count_free(cache, bin, bytes);
    cache_unlock(cache);
    return QUICK_DONE;
}

/* Kept out of the quick forms, whose registers it would need. Cache locked on entry, not on return.
 */
__attribute__((noinline)) static enum quick
free_into_unlisted(struct cache *cache, struct cache_bin *bin, struct pool_block *block) {
    cache_check_locked(cache);
    cache_table_list(&cache->table, bin);
    return free_into(cache, bin, block);
}

PLACED enum quick quick_free(struct pool *pool, CUdeviceptr pointer, bool whole) {
    struct cache *cache = cache_open(pool, whole);
    if (__builtin_expect(!cache, 0))
        return QUICK_TRY;
    struct pool_block *block = pointer_table_find(&cache->freeable, pointer);
    struct cache_bin *bin = NULL;
    if (__builtin_expect(block && block->context == cache->context && block != cache->sentinel, 1))
        bin = cache_bin_of(cache, block, whole);
    if (__builtin_expect(bin != NULL, 1))
        return __builtin_expect(bin->listed == block->site, 1)
                   ? free_into(cache, bin, block)
                   : free_into_unlisted(cache, bin, block);
    if (block && !whole)
        return cache_try_again(cache);
    cache_unlock(cache);
    return QUICK_NO;
}

CUresult pool_free(struct pool *pool, CUdeviceptr pointer) {
    return quick_free(pool, pointer, true) == QUICK_DONE ? CUDA_SUCCESS
                                                         : pool_free_rest(pool, pointer);
}

CUresult pool_free_rest(struct pool *pool, CUdeviceptr pointer) {
    CUresult result;
    struct pool_block *waited;
    /* Where something is owed the wait of a context's last free may be none for it alone. */
    struct cache *cache = atomic_load(&order_word) ? NULL : cache_open(pool, true);
    if (cache && cache_free_last(pool, cache, pointer, &waited, &result))
        return waited ? free_waited_for(pool, waited, result) : result;
    return free_kind(pool, POOL_DEVICE, pointer);
}
