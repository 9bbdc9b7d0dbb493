/* How much memory is free, in the answer to the program: what lies idle could be had as well. */
#include "pool/internal.h"

#include "planted.h"

/* Refreshes what the driver knows better than the ledger, for the current context. */
static void refresh(struct pool *pool) {
    struct context *context =
        pool->policy->refresh ? context_lock_current(pool, &kind_device) : NULL;
    if (!context)
        return;
    pool_unlock(pool);
    pool->policy->refresh(pool, context);
}

CUresult pool_mem_get_info(struct pool *pool, size_t *free_bytes, size_t *total_bytes) {
    size_t available = 0, total = 0;
    CUresult result = pool->driver->mem_get_info(&available, &total);
    if (result != CUDA_SUCCESS)
        return result;
    CUdevice ordinal;
    refresh(pool);
    if (pool->driver->ctx_get_device(&ordinal) == CUDA_SUCCESS) {
        pool_lock(pool);
        struct device *device = context_find_device(pool, ordinal);
        if (device && !PLANTED(idle_not_free))
            available += pages_idle(pool, device);
        pool_unlock(pool);
    }
    if (free_bytes)
        *free_bytes = available < total ? available : total;
    if (total_bytes)
        *total_bytes = total;
    return CUDA_SUCCESS;
}
