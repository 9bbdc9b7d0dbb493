/* PaddlePaddle's stream-ordered allocator: the driver's memory pool behind cudaMalloc.
 *
 * Kept of its origin: memory is allocated and freed in stream order, what is freed stays with the
 * driver's pool, and once allocated and pending memory crowd the device (throttle_ratio) the next
 * malloc first waits for the pending frees. Different: a free makes the wait, or owes it, or puts
 * up a fence as POOLCUDA_FREE says before the driver's pool has the memory, since the program has
 * not said which streams use a block; and what is allocated may be used in any stream at once. What
 * a block is to the program is not quite what cuMemAlloc gives: see docs/policies.md. */
#include "policy/async.h"

#include "policy/round.h"
#include "pool/internal.h"

#include <stdlib.h>

struct async *async_new(void) {
    return calloc(1, sizeof(struct async));
}

struct async *async_detach(struct store *store) {
    struct async *async = store->async;
    store->async = NULL;
    return async;
}

static size_t round_to_unit(size_t bytes) {
    return round_up(bytes, ROUND_SMALL);
}

/* The store keeps nothing itself: what is given is surplus at once. */
static struct pool_block *take(struct store *store, struct site *site, const struct fit *fit,
                               bool *stolen) {
    (void)store;
    (void)site;
    (void)fit;
    (void)stolen;
    return NULL;
}

static void give(struct store *store, struct pool_block *block) {
    LIST_INSERT_HEAD(&store->async->freed, block, in_list);
    store->count++;
    store->bytes += block->size;
}

static void remove_block(struct store *store, struct pool_block *block) {
    LIST_REMOVE(block, in_list);
    store->count--;
    store->bytes -= block->size;
}

static struct pool_block *victim(struct store *store) {
    return LIST_FIRST(&store->async->freed);
}

static struct pool_block *surplus(struct store *store, struct site *site, size_t keep) {
    (void)site;
    (void)keep;
    return victim(store);
}

/* --- the driver's pool; lock not held --- */

static bool has_entries(const struct driver *driver) {
    return driver->mem_pool_create && driver->mem_pool_destroy && driver->mem_pool_set_attribute &&
           driver->mem_pool_get_attribute && driver->mem_pool_trim_to &&
           driver->mem_alloc_from_pool_async && driver->mem_free_async && driver->stream_create &&
           driver->stream_destroy && driver->stream_synchronize;
}

static bool make_pool(const struct driver *driver, CUdevice ordinal, CUmemoryPool *made) {
    const CUmemPoolProps wanted = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
    cuuint64_t keep_all = UINT64_MAX;
    int off = 0;
    if (!has_entries(driver) || driver->mem_pool_create(made, &wanted) != CUDA_SUCCESS)
        return false;
    driver->mem_pool_set_attribute(*made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all);
    /* An allocation is never to wait for a free that is still pending. */
    driver->mem_pool_set_attribute(*made, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off);
    return true;
}

/* What the store has. Lock held. */
static struct async look_up(const struct context *context) {
    const struct async *async = context->ended ? NULL : context->store.async;
    return async ? *async : (struct async){.cannot = true};
}

static void destroy(struct pool *pool, CUmemoryPool memory_pool, CUstream stream) {
    if (stream)
        pool->driver->stream_destroy(stream);
    if (memory_pool)
        pool->driver->mem_pool_destroy(memory_pool);
}

/* Makes what is lacking of *found, or finds what another thread has made meanwhile. */
static void make(struct pool *pool, struct context *context, struct async *found) {
    CUmemoryPool memory_pool = NULL;
    CUstream stream = NULL;
    bool can =
        found->memory_pool || make_pool(pool->driver, context->device->ordinal, &memory_pool);
    can = can && pool->driver->stream_create(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS;
    pool_lock(pool);
    struct async *async = context->ended ? NULL : context->store.async;
    if (async && can && !async->memory_pool) {
        async->memory_pool = memory_pool;
        memory_pool = NULL;
    }
    if (async && can && !async->stream) {
        async->stream = stream;
        stream = NULL;
    }
    if (async && !can && !async->memory_pool)
        async->cannot = true;
    *found = look_up(context);
    pool_unlock(pool);
    destroy(pool, memory_pool, stream);
}

/* The store's pool and stream, made when they are first needed. False: this device has none. Gate
 * entered. */
static bool ensure(struct pool *pool, struct context *context, struct async *found) {
    pool_lock(pool);
    *found = look_up(context);
    pool_unlock(pool);
    if (found->cannot || found->stream)
        return !found->cannot;
    make(pool, context, found);
    if (found->cannot && pool->config.say)
        pool->config.say("poolcuda: this device has no memory pools: POOLCUDA_POLICY=async pools "
                         "nothing there, every call goes to the driver");
    return found->stream != NULL;
}

void async_end(struct pool *pool, struct async *async) {
    if (async)
        destroy(pool, async->memory_pool, async->stream);
    free(async);
}

void async_end_stream(struct pool *pool, struct context *context) {
    pool_lock(pool);
    struct async *async = context->ended ? NULL : context->store.async;
    CUstream stream = async ? async->stream : NULL;
    if (async)
        async->stream = NULL;
    pool_unlock(pool);
    destroy(pool, NULL, stream);
}

/* Notes what the driver's pool holds. Returns whether it holds more than when it was last asked.
 * Gate entered. */
static bool has_grown(struct pool *pool, struct context *context, CUmemoryPool memory_pool) {
    cuuint64_t reserved = 0, used = 0;
    bool grown = false;
    pool->driver->mem_pool_get_attribute(memory_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                         &reserved);
    pool->driver->mem_pool_get_attribute(memory_pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    pool_lock(pool);
    if (!context->ended) {
        size_t unused = reserved > used ? reserved - used : 0;
        grown = reserved > context->store.async->reserved;
        context->store.async->reserved = reserved;
        books_count_unused(pool, context, unused - context->store.unused);
    }
    pool_unlock(pool);
    return grown;
}

/* Blocks that a fence has made ready go to the driver's pool. Lock held on entry and return. */
static void flush(struct pool *pool, struct context *context) {
    struct leaving leaving = {.device = context->device};
    struct pool_block *block;
    while (!context->ended && (block = victim(&context->store))) {
        books_take_out(pool, block);
        leaving_take(pool, &leaving, block);
    }
    leaving_free(pool, &leaving);
}

/* Sees to it that what was freed can be had: all of it that is ready, and what is pending as well
 * once the device would be crowded with `wanted` bytes more. */
static void collect_freed(struct pool *pool, struct context *context, size_t wanted) {
    const struct device *device = context->device;
    double ratio = pool->config.throttle_ratio;
    pool_lock(pool);
    bool crowded =
        ratio > 0 && (double)(device->live + device->idle + wanted) > ratio * (double)device->total;
    if (crowded)
        fence_drain(pool, device);
    flush(pool, context);
    pool_unlock(pool);
    if (crowded && wait_is_owed(pool) && wait_settle(pool, "cuMemAlloc"))
        stats_add(STATS_throttled, 1);
}

static CUresult obtain_plain(struct pool *pool, size_t size, struct obtained *obtained) {
    CUresult result = pool->driver->mem_alloc(&obtained->pointer, size);
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    return result;
}

static CUresult obtain(struct pool *pool, const struct request *request, size_t least,
                       struct obtained *obtained) {
    struct context *context = request->context;
    const struct driver *driver = pool->driver;
    struct async async;
    *obtained = (struct obtained){.size = least};
    collect_freed(pool, context, least);
    if (!gate_enter(pool))
        return obtain_plain(pool, least, obtained); /* in a capture, as natively */
    if (!ensure(pool, context, &async)) {
        gate_leave(pool);
        return obtain_plain(pool, least, obtained);
    }
    CUresult result = driver->mem_alloc_from_pool_async(&obtained->pointer, least,
                                                        async.memory_pool, async.stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && wait_is_owed(pool)) {
        wait_settle(pool, "cuMemAlloc"); /* until then frees are pending */
        result = driver->mem_alloc_from_pool_async(&obtained->pointer, least, async.memory_pool,
                                                   async.stream);
    }
    if (result == CUDA_SUCCESS) { /* from now on any stream may use it */
        result = driver->stream_synchronize(async.stream);
        if (result != CUDA_SUCCESS)
            driver->mem_free_async(obtained->pointer, async.stream);
    }
    obtained->pooled = true;
    obtained->stitched = !has_grown(pool, context, async.memory_pool);
    gate_leave(pool);
    if (result == CUDA_SUCCESS && !obtained->stitched)
        stats_add(STATS_driver_allocs, 1);
    return result;
}

static void refresh(struct pool *pool, struct context *context) {
    pool_lock(pool);
    struct async async = look_up(context);
    pool_unlock(pool);
    if (!async.memory_pool || !gate_enter(pool))
        return;
    has_grown(pool, context, async.memory_pool);
    gate_leave(pool);
}

/* Behind the work that may use the block: what is left of it, while a wait is owed, is in the
 * legacy stream. Else the memory can be had again at once by what is allocated in the store's own
 * stream. */
static CUresult surrender(struct pool *pool, struct pool_block *block) {
    if (!block->pooled || !gate_enter(pool)) {
        CUresult freed = pool->driver->mem_free(block->pointer);
        stats_add(STATS_driver_frees, freed == CUDA_SUCCESS);
        return freed;
    }
    pool_lock(pool);
    struct async async = look_up(block->context);
    pool_unlock(pool);
    CUstream stream = async.stream && !wait_is_owed(pool) ? async.stream : CU_STREAM_LEGACY;
    CUresult result = pool->driver->mem_free_async(block->pointer, stream);
    gate_leave(pool);
    pool_lock(pool);
    if (result == CUDA_SUCCESS && !block->context->ended)
        books_count_unused(pool, block->context, block->size);
    pool_unlock(pool);
    return result;
}

/* What the driver's pool could give back: a list of one, which names that pool. */
static size_t take_unused(struct pool *pool, struct context *context, size_t bytes,
                          struct page **list) {
    size_t unused = context->store.unused;
    struct page *page = unused && bytes ? calloc(1, sizeof *page) : NULL;
    if (!page)
        return 0;
    page->handle = (CUmemGenericAllocationHandle)(uintptr_t)context->store.async->memory_pool;
    page->bytes = bytes < unused ? bytes : unused;
    page->next = *list;
    *list = page;
    books_count_unused(pool, context, 0 - page->bytes);
    return page->bytes;
}

/* Trims a pool by `bytes`. Returns what the driver has got back: less than was unused, where live
 * memory shares its pages. Gate entered. */
static size_t trim(const struct driver *driver, CUmemoryPool memory_pool, size_t bytes) {
    cuuint64_t before = 0, after = 0;
    driver->mem_pool_get_attribute(memory_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &before);
    driver->mem_pool_trim_to(memory_pool, before > bytes ? before - bytes : 0);
    driver->mem_pool_get_attribute(memory_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &after);
    stats_add(STATS_driver_frees, after < before);
    return after < before ? before - after : 0;
}

static size_t release_unused(struct pool *pool, struct page *list) {
    struct page *next;
    size_t released = 0;
    bool inside = gate_enter(pool);
    for (; list; list = next) {
        next = list->next;
        if (inside)
            released += trim(pool->driver, (CUmemoryPool)(uintptr_t)list->handle, list->bytes);
        free(list);
    }
    if (inside)
        gate_leave(pool);
    return released;
}

static void figures(const struct store *store, struct policy_figures *figures) {
    *figures = (struct policy_figures){store->count, store->bytes, 0};
    if (!LIST_EMPTY(&store->async->freed))
        figures->largest = LIST_FIRST(&store->async->freed)->size;
}

static bool is_valid(const struct store *store) {
    const struct pool_block *block;
    size_t count = 0, bytes = 0;
    LIST_FOREACH (block, &store->async->freed, in_list) {
        count++;
        bytes += block->size;
    }
    return count == store->count && bytes == store->bytes;
}

const struct policy policy_async = {
    .name = "async",
    .keeps_nothing = true,
    .round = round_to_unit,
    .take = take,
    .give = give,
    .remove = remove_block,
    .surplus = surplus,
    .victim = victim,
    .figures = figures,
    .is_valid = is_valid,
    .obtain = obtain,
    .surrender = surrender,
    .take_unused = take_unused,
    .release_unused = release_unused,
    .refresh = refresh,
};
