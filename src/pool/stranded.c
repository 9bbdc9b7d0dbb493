/* What a context had of a memory pool of the driver's, and could not free at its end: the driver
 * frees that with no context. So it waits until another context of the device is used. */
#include "pool/internal.h"

void stranded_keep(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct device *device = block->context->device;
    if (!block->in_driver_pool) {
        ledger_recycle(pool, block);
        return;
    }
    block->context = NULL; /* which may be freed before */
    block->next_leaving = device->stranded;
    device->stranded = block;
}

bool stranded_has(const struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    const struct device *device;
    const struct pool_block *block;
    TAILQ_FOREACH (device, &pool->devices, link)
        for (block = device->stranded; block; block = block->next_leaving)
            if (block->pointer == pointer)
                return true;
    return false;
}

static struct pool_block *take_all(struct pool *pool, struct device *device) {
    pool_lock(pool);
    struct pool_block *blocks = device->stranded;
    device->stranded = NULL;
    pool_unlock(pool);
    return blocks;
}

/* The work of its context is over. cuMemFree waits for nothing where the memory is the driver's
 * pool's [cuda.h, cuMemFree]. What it answers changes nothing: there is no later moment at which
 * the driver would take what it refuses now. */
void stranded_free(struct pool *pool, struct device *device) {
    lock_check_none();
    struct pool_block *block, *blocks = take_all(pool, device), *next;
    for (block = blocks; block; block = block->next_leaving)
        pool->driver->mem_free(block->pointer);
    if (!blocks)
        return;
    pool_lock(pool);
    for (block = blocks; block; block = next) {
        next = block->next_leaving;
        ledger_recycle(pool, block);
    }
    pool_unlock(pool);
}
