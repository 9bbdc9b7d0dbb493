/* PaddlePaddle's stream-ordered allocator: the driver's memory pool behind cudaMalloc.
 *
 * Kept of its origin: memory is allocated and freed in stream order, what is freed stays with the
 * driver's pool, and once allocated and pending memory crowd the device (throttle_ratio) the next
 * malloc first waits for the pending frees. Different: a free makes the wait, or owes it, or puts
 * up a fence as POOLCUDA_FREE says before the driver's pool has the memory, since the program has
 * not said which streams use a block; and what is allocated may be used in any stream at once. What
 * a block is to the program is not quite what cuMemAlloc gives: see docs/policies.md. */
#include "base/by_pointer.h"
#include "sources/driver_pool.h"

#include "pool/internal.h"
#include "pool/uncancelled.h"

#include <stdlib.h>

/* --- the driver's pool. All below: lock not held --- */

/* The store's pool; NULL once the context has ended. Lock held. */
static struct driver_pool *driver_pool_of(const struct context *context) {
    lock_check_held(LOCK_POOL);
    return context->ended ? NULL : context->driver_pool;
}

/* Copies what the store has, to be used without the lock. Between begin and end the context does
 * not end, and others that lack memory wait. For a block that was obtained take_obtained is the
 * end: its memory would outlive a context that ended before it has a record. False: the context
 * ends or has ended, or there is no host memory. */
static bool begin(struct pool *pool, struct context *context, struct driver_pool *found) {
    lock_check_none();
    pool_lock(pool);
    if (!context->ended && !context->driver_pool)
        context->driver_pool = calloc(1, sizeof *context->driver_pool);
    const struct driver_pool *async = context->closing ? NULL : driver_pool_of(context);
    if (async) {
        *found = *async;
        context->device->releasing++;
        context->users++;
    }
    pool_unlock(pool);
    return async != NULL;
}

static void end(struct pool *pool, struct context *context) {
    lock_check_none();
    pool_lock(pool);
    pool_count_released(pool, context->device, 1);
    context_user_leaves(pool, context);
    pool_unlock(pool);
}

/* Makes what *found lacks, or finds what another thread has made meanwhile. */
static CUresult make(struct pool *pool, struct context *context, struct driver_pool *found) {
    lock_check_none();
    CUmemoryPool memory_pool = NULL;
    CUstream stream = NULL;
    CUresult result = CUDA_SUCCESS;
    if (!found->memory_pool)
        result = driver_pool_make(pool->driver, context->device->ordinal, &memory_pool);
    if (result == CUDA_SUCCESS)
        result = pool->driver->stream_create(&stream, CU_STREAM_NON_BLOCKING);
    pool_lock(pool);
    struct driver_pool *async = driver_pool_of(context);
    if (result == CUDA_SUCCESS && !async->memory_pool) {
        async->memory_pool = memory_pool;
        memory_pool = NULL;
    }
    if (result == CUDA_SUCCESS && !async->stream) {
        async->stream = stream;
        stream = NULL;
    }
    async->cannot = result == CUDA_ERROR_NOT_SUPPORTED && !async->memory_pool;
    *found = *async;
    pool_unlock(pool);
    driver_pool_destroy(pool->driver, memory_pool, stream);
    return result;
}

/* Sees to it that *found is complete. NOT_SUPPORTED: this device has no memory pools. Gate entered,
 * begun. */
static CUresult complete(struct pool *pool, struct context *context, struct driver_pool *found) {
    lock_check_none();
    if (found->stream)
        return CUDA_SUCCESS;
    CUresult result = found->cannot ? CUDA_ERROR_NOT_SUPPORTED : make(pool, context, found);
    if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    if (result == CUDA_ERROR_NOT_SUPPORTED && pool->config.say)
        pool->config.say(
            pool->driver->others_pools
                ? "poolcuda: another tool stands before the driver's stream-ordered functions and "
                  "would miscount: POOLCUDA_POLICY=async pools nothing, every call goes to the "
                  "driver"
                : "poolcuda: this device has no memory pools: POOLCUDA_POLICY=async pools nothing "
                  "there, every call goes to the driver");
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* --- what the driver's pool holds --- */

/* Lock held. */
static void count_unused(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct driver_pool *async = context->driver_pool;
    async->changes++;
    size_t unused = async->reserved > async->given ? async->reserved - async->given : 0;
    ledger_count_unused(pool, context, unused - context->store.unused);
}

void source_driver_pool_gave_back(struct pool *pool, struct context *context, size_t bytes) {
    lock_check_held(LOCK_POOL);
    struct driver_pool *async = driver_pool_of(context);
    if (!async)
        return;
    async->given -= bytes;
    count_unused(pool, context);
}

/* Asks the driver's pool for an attribute in bytes. What another thread has counted meanwhile may
 * be newer than the answer, so it is asked again then, a few times. Lock held on entry and return,
 * not in between. */
static CUresult ask(struct pool *pool, const struct driver_pool *async,
                    CUmemPool_attribute attribute, cuuint64_t *bytes) {
    lock_check_held(LOCK_POOL);
    CUresult result;
    unsigned changes, tries = 8;
    do {
        changes = async->changes;
        pool_unlock(pool);
        result = pool->driver->mem_pool_get_attribute(async->memory_pool, attribute, bytes);
        pool_lock(pool);
    } while (changes != async->changes && --tries);
    return result;
}

/* After `bytes` were allocated from it, if any: asks how much it holds. Returns whether that is
 * more than when it was last asked. Gate entered, begun. */
static bool has_grown(struct pool *pool, struct context *context, size_t bytes) {
    struct driver_pool *async = context->driver_pool;
    cuuint64_t reserved = 0;
    pool_lock(pool);
    CUresult result = ask(pool, async, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved);
    if (result != CUDA_SUCCESS) /* not known: at least what is in use */
        reserved = async->reserved > async->given + bytes ? async->reserved : async->given + bytes;
    bool grown = reserved > async->reserved;
    async->reserved = reserved;
    async->given += bytes;
    count_unused(pool, context);
    pool_unlock(pool);
    return grown;
}

/* --- allocation and free --- */

/* Gives blocks whose fence has passed to the driver's pool. Others, as pitched ones are, stay until
 * the program frees something: the driver's free of those waits for later work, too. Lock held on
 * entry and return. */
static void flush(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct release_list releases = {.device = context->device};
    struct pool_block *block, *next;
    for (block = context->closing ? NULL : LIST_FIRST(&context->store.leaving); block;
         block = next) {
        next = LIST_NEXT(block, in_list);
        if (!block->in_driver_pool)
            continue;
        ledger_take_out(pool, block);
        release_list_add(pool, &releases, block);
    }
    release_list_give_back(pool, &releases);
}

BY_POINTER static void refresh(struct pool *pool, struct context *context) {
    lock_check_none();
    struct driver_pool async;
    pool_lock(pool);
    flush(pool, context);
    pool_unlock(pool);
    int cancelling = uncancelled_begins(pool);
    if (begin(pool, context, &async)) {
        if (pool_gate_enter(pool)) {
            stranded_free(pool, context->device);
            if (async.memory_pool)
                has_grown(pool, context, 0);
            pool_gate_leave(pool);
        }
        end(pool, context);
    }
    uncancelled_ends(pool, cancelling);
}

/* Sees to it that what was freed can be had: what is idle, and what this thread has deferred as
 * well once the device would be crowded with `wanted` bytes more. */
static void collect_freed(struct pool *pool, struct context *context, size_t wanted) {
    const struct device *device = context->device;
    pool_lock(pool);
    double ratio = pool->config.throttle_ratio;
    bool crowded = ratio > 0 && (double)(device->held + wanted) > ratio * (double)device->total;
    if (crowded)
        fence_drain_own(pool, context);
    flush(pool, context);
    pool_unlock(pool);
    if (crowded && wait_is_owed() && wait_try_pay(pool, "cuMemAlloc"))
        stats_add(STATS_throttled, 1);
}

/* Whether `wanted` bytes can be had surely: the driver's pool has them unused, and when it was last
 * asked what can be had that was twice as much as was allocated since. Lock not held. */
static bool is_sure(struct pool *pool, const struct context *context, size_t wanted) {
    lock_check_none();
    pool_lock(pool);
    struct driver_pool *async = driver_pool_of(context);
    bool sure = async && async->until_asked >= wanted && context->store.unused >= wanted;
    if (sure)
        async->until_asked -= wanted;
    pool_unlock(pool);
    return sure;
}

/* Whether the driver's pool would wait for work that is under way: it does that when memory is
 * short, and cuMemAlloc does not. Begun, lock not held. */
static bool would_wait(struct pool *pool, struct context *context, const struct driver_pool *async,
                       size_t wanted) {
    lock_check_none();
    static const uint64_t growth = 32 << 20; /* what it may take more than it needs */
    uint64_t available;
    if (PLANTED(asked_for_too_much) || is_sure(pool, context, wanted))
        return false;
    if (!driver_pool_available(pool->driver, async, &available) || available < wanted + growth)
        return wait_would_last(pool, context);
    pool_lock(pool);
    struct driver_pool *own = driver_pool_of(context);
    if (own)
        own->until_asked = (available - wanted) / 2;
    pool_unlock(pool);
    return false;
}

/* What was obtained is of no use, as its context has been lost: then it is freed when that has
 * ended. Begun. */
static void undo(struct pool *pool, const struct request *request, CUstream stream,
                 const struct obtained *obtained) {
    if (pool->driver->mem_free_async(obtained->pointer, stream) == CUDA_SUCCESS)
        return;
    pool_lock(pool);
    struct pool_block *block =
        ledger_add(pool, request->context, request->site, obtained->pointer, obtained->size, 0);
    if (block) {
        block->in_driver_pool = true;
        ledger_remove(pool, block);
        stranded_keep(pool, block);
    }
    pool_unlock(pool);
}

/* Gate entered, begun. */
static CUresult obtain_from_pool(struct pool *pool, const struct request *request,
                                 const struct driver_pool *async, struct obtained *obtained) {
    const struct driver *driver = pool->driver;
    struct context *context = request->context;
    CUresult result = driver->mem_alloc_from_pool_async(&obtained->pointer, obtained->size,
                                                        async->memory_pool, async->stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && wait_is_owed()) {
        wait_try_pay(pool, "cuMemAlloc"); /* until then frees are pending */
        result = driver->mem_alloc_from_pool_async(&obtained->pointer, obtained->size,
                                                   async->memory_pool, async->stream);
    }
    if (result != CUDA_SUCCESS)
        return result;
    result = driver->stream_synchronize(async->stream); /* from now on any stream may use it */
    if (result != CUDA_SUCCESS) {
        undo(pool, request, async->stream, obtained);
        has_grown(pool, context, 0);
        return result;
    }
    obtained->in_driver_pool = true;
    obtained->stitched = !has_grown(pool, context, obtained->size);
    if (!obtained->stitched)
        stats_add(STATS_driver_allocs, 1);
    return CUDA_SUCCESS;
}

/* A busy machine lets another thread in late. */
static void pause_if_planted(void) {
    enum { LONG_PAUSE = 40 };
    for (int i = 0; i < LONG_PAUSE && (PLANTED(slow_adoption) || PLANTED(adopted_after_end)); i++)
        futex_pause();
}

BY_POINTER static CUresult obtain(struct pool *pool, const struct request *request, size_t least,
                                  struct obtained *obtained) {
    lock_check_none();
    struct context *context = request->context;
    struct driver_pool async;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    bool could_fit = !context->device->total || least <= context->device->total;
    collect_freed(pool, context, least);
    if (!could_fit || !begin(pool, context, &async))
        return source_obtain(pool, &kind_device, least, obtained);
    *obtained = (struct obtained){.size = least};
    bool inside = pool_gate_enter(pool); /* else in a capture: as natively */
    if (inside) {
        stranded_free(pool, context->device);
        result = complete(pool, context, &async);
    }
    if (result == CUDA_SUCCESS && would_wait(pool, context, &async, least))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result == CUDA_SUCCESS)
        result = obtain_from_pool(pool, request, &async, obtained);
    /* Own handles are invalid once the context has ended: cuMemAlloc has its own answer to that. */
    if (result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_INVALID_HANDLE)
        result = source_obtain(pool, &kind_device, least, obtained);
    if (inside)
        pool_gate_leave(pool);
    if (!obtained->in_driver_pool || PLANTED(adopted_after_end))
        end(pool, context);
    pause_if_planted();
    return result;
}

static CUresult give_back(const struct driver *driver, const struct pool_block *block, bool async,
                          CUstream stream) {
    return async ? driver->mem_free_async(block->pointer, stream)
                 : driver->mem_free(block->pointer);
}

/* The store's own stream; once the context has ended, the legacy one. */
static CUstream store_stream(struct pool *pool, const struct context *context) {
    pool_lock(pool);
    const struct driver_pool *async = driver_pool_of(context);
    CUstream stream = async && async->stream ? async->stream : CU_STREAM_LEGACY;
    pool_unlock(pool);
    return stream;
}

/* Whether the legacy stream is that of the block's context, and not of another that is current. */
static bool is_in_own_context(struct pool *pool, const struct pool_block *block) {
    CUcontext current;
    return pool->driver->ctx_get_current(&current) == CUDA_SUCCESS &&
           current == block->context->handle;
}

/* What is allocated in the store's own stream can have at once what is freed there. While a wait is
 * owed, another stream of the pool's own, which is put behind it: by the legacy stream the program
 * would see that the free is under way. Lock not held. */
static CUstream stream_to_free_in(struct pool *pool, struct context *context, bool is_own) {
    lock_check_none();
    if (!wait_is_owed())
        return store_stream(pool, context);
    CUstream own = is_own ? order_own_stream(&pool->order, context->handle) : NULL;
    if (own)
        wait_precedes_own_stream(pool, context, own);
    else
        wait_precedes_own_work(pool);
    return own ? own : CU_STREAM_LEGACY;
}

/* Whether the context is about to end: what waits for its work is owed no more. */
static bool is_closing(struct pool *pool, const struct context *context) {
    pool_lock(pool);
    bool closing = context->closing && !context->ended;
    pool_unlock(pool);
    return closing;
}

/* Frees behind the work that may use the block: in another context a wait that is owed is paid
 * instead. During a capture only cuMemFree is left, which waits for nothing where the memory is the
 * driver's pool's [cuda.h, cuMemFree]. The block's context may end meanwhile, but only after this:
 * the block is being released. */
BY_POINTER static CUresult surrender(struct pool *pool, struct pool_block *block) {
    lock_check_none();
    if (block->in_driver_pool && is_closing(pool, block->context)) /* which gives it back then */
        return CUDA_ERROR_NOT_READY;
    bool inside = block->in_driver_pool && pool_gate_enter(pool);
    if (block->in_driver_pool && !inside && wait_is_owed())
        return CUDA_ERROR_NOT_READY;
    bool is_own = inside && is_in_own_context(pool, block);
    if (inside && !is_own)
        wait_try_pay(pool, "cuMemFree");
    CUstream stream = inside ? stream_to_free_in(pool, block->context, is_own) : NULL;
    CUresult result = give_back(pool->driver, block, inside, stream);
    /* for a passing reason; at its context's end the memory would be lost */
    if (result != CUDA_SUCCESS)
        result = give_back(pool->driver, block, inside, stream);
    if (inside)
        pool_gate_leave(pool);
    if (result != CUDA_SUCCESS)
        return result;
    stats_add(STATS_driver_frees, !block->in_driver_pool);
    pool_lock(pool);
    if (block->in_driver_pool)
        source_driver_pool_gave_back(pool, block->context, block->size);
    pool_unlock(pool);
    return CUDA_SUCCESS;
}

/* Takes what the driver's pool could give back: a list of one, which names that pool. It counts as
 * given back from now on; what could not be given back is found when the driver is next asked. */
BY_POINTER static size_t take_unused(struct pool *pool, struct context *context, size_t bytes,
                                     struct page **list) {
    lock_check_held(LOCK_POOL);
    struct driver_pool *async = context->driver_pool;
    size_t unused = context->store.unused;
    struct page *page = unused && bytes ? calloc(1, sizeof *page) : NULL;
    if (!page)
        return 0;
    page->context = context;
    context->users++;
    page->bytes = bytes < unused ? bytes : unused;
    page->next = *list;
    *list = page;
    async->reserved -= page->bytes;
    count_unused(pool, context);
    return page->bytes;
}

/* After all has been given back that could be: what is unused and stays belongs to pages of live
 * blocks, but for what is being freed. That is idle yet, and on its way once the context's work is
 * done. */
static void count_pending(struct pool *pool, struct context *context) {
    struct driver_pool *async = context->driver_pool;
    cuuint64_t used = 0;
    pool_lock(pool);
    CUresult result = ask(pool, async, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    if (result == CUDA_SUCCESS && used > async->given) {
        async->reserved = used;
        context->resting = false;
        count_unused(pool, context);
    }
    pool_unlock(pool);
}

/* What has been freed may count as used until the host has seen the free's end [cuda.h,
 * cuMemPoolTrimTo]. In the store's own stream there is nothing to wait for but such frees, nor in
 * the other one while nothing is owed. Gate entered. */
static size_t trim(struct pool *pool, struct context *context, size_t bytes) {
    pool_lock(pool);
    struct driver_pool async = *context->driver_pool;
    CUcontext handle = context->handle;
    pool_unlock(pool);
    if (async.stream)
        pool->driver->stream_synchronize(async.stream);
    order_await_own(&pool->order, handle);
    size_t released = driver_pool_trim(pool->driver, async.memory_pool, bytes);
    stats_add(STATS_driver_frees, released > 0);
    if (released < bytes)
        count_pending(pool, context);
    return released;
}

BY_POINTER static size_t release_unused(struct pool *pool, struct page *list) {
    lock_check_none();
    struct page *next;
    size_t released = 0;
    bool inside = pool_gate_enter(pool);
    for (; list; list = next) {
        next = list->next;
        if (inside)
            released += trim(pool, list->context, list->bytes);
        pool_lock(pool);
        context_user_leaves(pool, list->context);
        pool_unlock(pool);
        free(list);
    }
    if (inside)
        pool_gate_leave(pool);
    return released;
}

const struct source source_driver_pool = {
    .reuses = true,
    .obtain = obtain,
    .surrender = surrender,
    .take_unused = take_unused,
    .release_unused = release_unused,
    .refresh = refresh,
};
