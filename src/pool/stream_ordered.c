/* Stream-ordered calls that the pool serves (POOLCUDA_ASYNC=1).
 *
 * An allocation gets what any other does, and what was freed in its own stream: work on the block's
 * new life comes behind the free there, and the free behind the work on the old one, which is what
 * a program that frees in stream order vouches for [cuda.h, cuMemFreeAsync]. A free waits for
 * nothing: the block is deferred, and serves elsewhere once a fence that was recorded after the
 * free has passed.
 *
 * The driver serves the rest: allocations from any pool but the device's default one, in streams of
 * other contexts than the current one, while a stream is being captured, and once other devices
 * were given access. */
#include "pool/internal.h"

/* Whether work in the stream is the current context's. */
static bool is_of_current_context(const struct pool *pool, CUstream stream) {
    CUcontext current = NULL, owner = NULL;
    const struct driver *driver = pool->driver;
    if (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
        return true;
    return driver->stream_get_ctx && driver->ctx_get_current(&current) == CUDA_SUCCESS &&
           driver->stream_get_ctx(stream, &owner) == CUDA_SUCCESS && owner == current;
}

/* Whether an allocation from `memory_pool` (NULL: the device's current one) natively comes from the
 * device's default pool. A device without memory pools has none. */
static bool is_from_default_pool(const struct pool *pool, CUmemoryPool memory_pool) {
    CUdevice device;
    CUmemoryPool fallback = NULL;
    const struct driver *driver = pool->driver;
    if (!driver->device_get_default_mem_pool || !driver->device_get_mem_pool ||
        driver->ctx_get_device(&device) != CUDA_SUCCESS ||
        driver->device_get_default_mem_pool(&fallback, device) != CUDA_SUCCESS)
        return false;
    if (!memory_pool && driver->device_get_mem_pool(&memory_pool, device) != CUDA_SUCCESS)
        return false;
    return memory_pool == fallback;
}

/* The order that holds for a stream's frees. Work in different threads' default streams is in no
 * order: what such a stream has freed waits for a fence. What a green context's has freed does so,
 * too: in the primary context, the same handle may mean another stream. */
static CUstream order_of(CUstream stream, bool green) {
    return green || stream == CU_STREAM_PER_THREAD ? NULL : stream;
}

/* The calls, for a stream of the context that was current before its owner was. Gate entered. */
static bool malloc_in_order_of(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                               CUstream stream, const struct call_site *site) {
    bool pushed = context_has_green(pool) && context_push_owner(pool);
    CUresult result = malloc_in_stream(pool, pointer, bytes, site, order_of(stream, pushed));
    if (pushed)
        pool_pop_device(pool, true);
    return result == CUDA_SUCCESS;
}

static bool free_in_order_of(struct pool *pool, CUdeviceptr pointer, CUstream stream,
                             CUresult *result) {
    bool pushed = context_has_green(pool) && context_push_owner(pool);
    bool freed = free_in_stream(pool, pointer, order_of(stream, pushed), result);
    if (pushed)
        pool_pop_device(pool, true);
    return freed;
}

/* What the program gets is memory of its context, so an allocation that begins in the gate is made
 * there: a capture that begins prohibits cuMemAlloc, but not the call that the program made. */
bool pool_malloc_async(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                       CUmemoryPool memory_pool, CUstream stream, const struct call_site *site) {
    if (!pool->config.ordered || !pointer || !bytes ||
        atomic_load_explicit(&pool->lasting[WAIT_REASON_peer], memory_order_relaxed) ||
        !pool_gate_enter(pool))
        return false;
    bool served = is_of_current_context(pool, stream) && is_from_default_pool(pool, memory_pool) &&
                  malloc_in_order_of(pool, pointer, bytes, stream, site);
    pool_gate_leave(pool);
    stats_add(STATS_async_served, served);
    return served;
}

bool pool_free_async(struct pool *pool, CUdeviceptr pointer, CUstream stream, CUresult *result) {
    if (!pool->config.ordered || !pool->driver->event_synchronize || !pool_gate_enter(pool))
        return false;
    bool served =
        is_of_current_context(pool, stream) && free_in_order_of(pool, pointer, stream, result);
    pool_gate_leave(pool);
    return served;
}
