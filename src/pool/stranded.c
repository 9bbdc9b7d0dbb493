/* Blocks of contexts that end.
 *
 * The driver frees what lies in a memory pool of its own with no context, and until it has ended
 * the context other threads' work may use it. So such a block is kept until another context of the
 * device is used. A block in a region is kept until the driver has ended the context: if another
 * thread's free of it were the driver's, that would free all of the region.
 *
 * Invariant: a block's context is NULL once the driver has ended that, and not before. What it has
 * requested is 0 if it is none of the program's any more. */
#include "pool/internal.h"

/* Lock held. */
static void put(struct device *device, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    block->next_leaving = device->stranded;
    device->stranded = block;
}

void stranded_keep(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct device *device = block->context->device;
    bool in_region = !block->context->over && block->context->keeper->cuts;
    if (!block->in_driver_pool && !in_region) {
        ledger_recycle(pool, block);
        return;
    }
    if (block->context->closing && !block->context->refused)
        context_leaves(block->context);
    if (block->context->over)
        block->context = NULL;
    put(device, block);
}

bool stranded_refers_to(const struct context *context) {
    lock_check_held(LOCK_POOL);
    const struct pool_block *block = context->device->stranded;
    while (block && block->context != context)
        block = block->next_leaving;
    return block;
}

/* Its place in a list. Lock held. */
static struct pool_block **find(struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    struct device *device;
    struct pool_block **place;
    TAILQ_FOREACH (device, &pool->devices, link)
        for (place = &device->stranded; *place; place = &(*place)->next_leaving)
            if ((*place)->pointer == pointer)
                return place;
    return NULL;
}

bool stranded_has(struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    struct pool_block **place = find(pool, pointer);
    return place && !(*place)->context;
}

/* Takes a block out of the list and returns it. Lock held. */
static struct pool_block *take(struct pool_block **place) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = *place;
    *place = block->next_leaving;
    return block;
}

const struct pool_block *stranded_around(const struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    const struct device *device;
    const struct pool_block *block;
    TAILQ_FOREACH (device, &pool->devices, link)
        for (block = device->stranded; block; block = block->next_leaving)
            if (block->context && pointer - block->pointer < block->requested)
                return block;
    return NULL;
}

/* As the native free does. Lock held on entry and return, not in between. */
static void wait_in(struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    CUresult result;
    pool_unlock(pool);
    if (pool_gate_enter(pool)) {
        order_synchronize(&pool->order, handle, &result);
        pool_gate_leave(pool);
    }
    pool_lock(pool);
}

/* A block of a context that is about to end is freed once, for which there is nothing to do. If the
 * driver has refused the end, that is so in a region; what lies in a memory pool of its own is the
 * driver's to free, which waits for nothing there. */
CUdeviceptr stranded_as_freed(struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    struct pool_block **place = find(pool, pointer);
    if (place && (*place)->context && (*place)->context->refused) {
        wait_in(pool, (*place)->context->handle);
        place = find(pool, pointer);
    }
    struct pool_block *block = place ? *place : NULL;
    if (!block)
        return pointer;
    if (!block->context || !block->requested)
        return POOL_NOWHERE;
    if (!block->context->refused || !block->in_driver_pool) {
        block->requested = 0;
        return 0;
    }
    ledger_recycle(pool, take(place));
    return pointer;
}

/* A block in a region has gone with the context. */
void stranded_end_is_over(struct pool *pool, bool ended) {
    lock_check_held(LOCK_POOL);
    struct device *device;
    TAILQ_FOREACH (device, &pool->devices, link) {
        struct pool_block **place = &device->stranded;
        while (*place) {
            struct pool_block *block = *place;
            bool gone = block->context && context_has_gone(block->context, ended);
            if (gone && !block->in_driver_pool) {
                ledger_recycle(pool, take(place));
                continue;
            }
            if (gone)
                block->context = NULL;
            place = &block->next_leaving;
        }
    }
}

static struct pool_block *take_all(struct pool *pool, struct device *device) {
    struct pool_block *taken = NULL;
    pool_lock(pool);
    struct pool_block **place = &device->stranded;
    while (*place) {
        if ((*place)->context) {
            place = &(*place)->next_leaving;
            continue;
        }
        struct pool_block *block = take(place);
        block->next_leaving = taken;
        taken = block;
    }
    pool_unlock(pool);
    return taken;
}

/* The work of its context is over. cuMemFree waits for nothing where the memory is the driver's
 * pool's [cuda.h, cuMemFree]. An error that says nothing of the memory is the current context's. */
void stranded_free(struct pool *pool, struct device *device) {
    lock_check_none();
    struct pool_block *block, *blocks = take_all(pool, device), *next;
    bool lost = false;
    for (block = blocks; block; block = block->next_leaving) {
        CUresult result = lost ? CUDA_SUCCESS : pool->driver->mem_free(block->pointer);
        lost = lost || (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE);
        block->refused = lost;
    }
    if (!blocks)
        return;
    pool_lock(pool);
    for (block = blocks; block; block = next) {
        next = block->next_leaving;
        if (block->refused)
            put(device, block);
        else
            ledger_recycle(pool, block);
    }
    pool_unlock(pool);
}
