/* Contexts that the program has made itself, as it makes and ends them; and whose memory they use.
 */
#include "pool/internal.h"
#include "pool/ledger.h"

#include "thread_marks.h"

#include <stdlib.h>

void pool_context_created(struct pool *pool, CUcontext handle) {
    thread_number(); /* it is current: see order_may_owe */
    order_context_begins(&pool->order, handle, ORDER_NO_DEVICE);
    pool_lock(pool);
    struct created_context *created =
        context_is_created(pool, handle) ? NULL : calloc(1, sizeof *created);
    if (created) {
        *created = (struct created_context){handle, pool->created};
        pool->created = created;
    }
    pool_unlock(pool);
}

bool pool_context_is_created(struct pool *pool, CUcontext handle) {
    pool_lock(pool);
    bool created = context_is_created(pool, handle);
    pool_unlock(pool);
    return created;
}

CUcontext pool_owner_of_current(struct pool *pool) {
    const struct driver *driver = pool->driver;
    CUcontext owner = NULL;
    void *green;
    if (!atomic_load(&pool->lasting[WAIT_REASON_green]))
        return driver->ctx_get_current(&owner) == CUDA_SUCCESS ? owner : NULL;
    bool says = driver->stream_get_ctx_v2 &&
                driver->stream_get_ctx_v2(CU_STREAM_LEGACY, &owner, &green) == CUDA_SUCCESS;
    return says ? owner : NULL;
}

CUcontext pool_owner_of(struct pool *pool, CUcontext context) {
    bool pushed;
    if (!atomic_load(&pool->lasting[WAIT_REASON_green]) ||
        !pool_push_context(pool, context, &pushed))
        return context;
    CUcontext owner = pool_owner_of_current(pool);
    pool_pop_device(pool, pushed);
    return owner ? owner : context;
}

bool pool_push_owner(struct pool *pool, CUcontext owner, bool *pushed) {
    if (!order_make_current(&pool->order, owner, pushed))
        return false;
    const struct context *known = context_lock_current(pool, &kind_device);
    pool_unlock(pool);
    if (!known)
        pool_pop_device(pool, *pushed);
    return known != NULL;
}

void context_forget_created(struct pool *pool, CUcontext handle) {
    struct created_context **link = &pool->created;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    struct created_context *gone = *link;
    if (gone)
        *link = gone->next;
    free(gone);
}

void context_forget_all_created(struct pool *pool) {
    while (pool->created)
        context_forget_created(pool, pool->created->handle);
}

/* One of the context's blocks of device memory. 0: it has none. Lock not held. */
static CUdeviceptr any_block(struct pool *pool, CUcontext handle) {
    lock_check_none();
    const struct pool_block *block;
    struct ledger_place place = {0};
    CUdeviceptr pointer = 0;
    pool_lock(pool);
    while (!pointer && (block = ledger_next(pool, &place)))
        if (block->context->handle == handle && block->context->kind.memory == POOL_DEVICE)
            pointer = block->pointer;
    pool_unlock(pool);
    return pointer;
}

/* The context of what is allocated now, on a full device of host memory. NULL: that fails. Both
 * frees wait for the work there. */
static CUcontext probe_owner(const struct driver *driver) {
    CUcontext owner = NULL;
    CUdeviceptr probe;
    void *host;
    if (driver->mem_alloc(&probe, 1) == CUDA_SUCCESS) {
        driver->pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, probe);
        driver->mem_free(probe);
    } else if (driver->mem_host_alloc && driver->mem_host_alloc(&host, 1, 0) == CUDA_SUCCESS) {
        driver->pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)host);
        driver->mem_free_host(host);
    }
    return owner;
}

CUcontext context_ask_owner(struct pool *pool, CUcontext handle) {
    lock_check_none();
    const struct driver *driver = pool->driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUcontext owner = pool_owner_of_current(pool);
    if (owner && owner != handle)
        return owner;
    CUdeviceptr block = driver->pointer_get_attribute ? any_block(pool, handle) : 0;
    if (!block)
        return NULL; /* there is nothing to keep */
    if (driver->pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, block) != CUDA_SUCCESS)
        owner = NULL;
    if (owner || pool_driver_waits(pool))
        return owner;
    gate_exchange_capture_mode(pool, &mode); /* no capture is disturbed */
    owner = probe_owner(driver);
    gate_exchange_capture_mode(pool, &mode);
    return owner;
}
