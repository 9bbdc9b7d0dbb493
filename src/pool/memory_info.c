/* How much memory is free: by the driver, and in the answer to the program, as what lies idle could
 * be had as well.
 *
 * The driver's free memory is in pages. Another tool between, a quota, answers by what it has
 * counted, the bytes of each allocation. What can be had is what both have: with all idle memory
 * given back the tool has its bytes more, and the driver those pages that come free. */
#include "pool/internal.h"

void memory_refresh(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link) {
        if (context->device != device || !context->source->refresh)
            continue;
        pool_unlock(pool);
        context->source->refresh(pool, context);
        pool_lock(pool);
        if (context->ended) /* then it is in another list */
            return;
    }
}

/* The current context is learnt if it is new: what is kept of contexts that have ended is freed in
 * it. */
static void refresh(struct pool *pool) {
    if (!pool->source->refresh)
        return;
    const struct context *context = context_lock_current(pool, &kind_device);
    if (context)
        memory_refresh(pool, context->device);
    pool_unlock(pool);
}

size_t available_by_driver(struct pool *pool) {
    lock_check_none();
    size_t available = 0, total;
    if (!pool_gate_enter(pool))
        return SIZE_MAX;
    CUresult result = pool->driver->mem_get_info(&available, &total);
    pool_gate_leave(pool);
    return result == CUDA_SUCCESS ? available : SIZE_MAX;
}

/* What the driver itself has free; UINT64_MAX: nobody stands between, or it does not say. */
static uint64_t ask_driver_itself(const struct driver *driver) {
    size_t available, total;
    return driver->own_mem_get_info && driver->own_mem_get_info(&available, &total) == CUDA_SUCCESS
               ? available
               : UINT64_MAX;
}

/* Lock held. own: as ask_driver_itself says. */
static uint64_t with_idle(struct pool *pool, const struct device *device, uint64_t available,
                          uint64_t own) {
    lock_check_held(LOCK_POOL);
    uint64_t pages = pages_idle(pool, device);
    if (own == UINT64_MAX || own == available) /* the tool keeps no count, and asks the driver */
        return available + pages;
    return available + device_idle(device) < own + pages ? available + device_idle(device)
                                                         : own + pages;
}

static CUresult get_info(struct pool *pool, size_t *free_bytes, size_t *total_bytes) {
    size_t available = 0, total = 0;
    refresh(pool);
    CUresult result = pool->driver->mem_get_info(&available, &total);
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t own = ask_driver_itself(pool->driver);
    CUdevice ordinal;
    if (pool->driver->ctx_get_device(&ordinal) == CUDA_SUCCESS) {
        pool_lock(pool);
        struct device *device = context_find_device(pool, ordinal);
        if (device && !PLANTED(idle_not_free))
            available = with_idle(pool, device, available, own);
        pool_unlock(pool);
    }
    if (free_bytes)
        *free_bytes = available < total ? available : total;
    if (total_bytes)
        *total_bytes = total;
    return CUDA_SUCCESS;
}

CUresult pool_mem_get_info(struct pool *pool, size_t *free_bytes, size_t *total_bytes) {
    bool pushed = context_has_green(pool) && context_push_owner(pool);
    CUresult result = get_info(pool, free_bytes, total_bytes);
    if (pushed)
        pool_pop_device(pool, true);
    return result;
}
