/* Contexts that the program makes itself, and whose memory the current one uses: a green context's
 * is its primary one's, which is current for as long as a call about memory takes. */
#include "pool/context_owners.h"

#include "thread_marks.h"

void pool_context_created(struct pool *pool, CUcontext handle) {
    thread_number(); /* it is current: see order_may_owe */
    order_context_begins(&pool->order, handle, ORDER_NO_DEVICE);
    pool_lock(pool);
    context_forget_owner(pool, handle); /* a green one of before */
    context_add_owner(pool, handle, handle, true);
    pool_unlock(pool);
}

bool pool_context_is_created(struct pool *pool, CUcontext handle) {
    pool_lock(pool);
    bool created = context_is_created(pool, handle);
    pool_unlock(pool);
    return created;
}

/* The owner as far as the pool knows it, or NULL. Lock held. */
static CUcontext find_owner(struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    CUcontext owner = context_owner(pool, handle);
    return owner || !context_is_known(pool, handle) ? owner : handle;
}

/* ends: how many there were before the driver was asked. Since then the context may have ended. */
static void remember_owner(struct pool *pool, CUcontext handle, CUcontext owner, uint64_t ends) {
    pool_lock(pool);
    if (pool->ends == ends && !find_owner(pool, handle))
        context_add_owner(pool, handle, owner, false);
    pool_unlock(pool);
}

static CUcontext learn_owner(struct pool *pool, CUcontext handle) {
    pool_lock(pool);
    CUcontext owner = find_owner(pool, handle);
    bool ending = pool->ends_under_way;
    uint64_t ends = pool->ends;
    pool_unlock(pool);
    if (owner)
        return owner;
    owner = pool_owner_of_current(pool);
    if (owner && owner != handle && !ending)
        remember_owner(pool, handle, owner, ends);
    return owner;
}

void context_learn_by(struct pool *pool, CUdeviceptr pointer) {
    lock_check_none();
    const struct driver *driver = pool->driver;
    CUcontext handle, owner = NULL;
    if (!atomic_load(&pool->lasting[WAIT_REASON_green]) || driver->stream_get_ctx_v2 ||
        !driver->pointer_get_attribute || context_current(pool, &handle) != CUDA_SUCCESS)
        return;
    pool_lock(pool);
    uint64_t ends = pool->ends;
    bool learns = handle && !pool->ends_under_way && !find_owner(pool, handle);
    pool_unlock(pool);
    if (learns && driver->pointer_get_attribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, pointer) ==
                      CUDA_SUCCESS)
        remember_owner(pool, handle, owner, ends);
}

bool context_push_owner(struct pool *pool) {
    lock_check_none();
    CUcontext handle;
    bool pushed = false;
    if (context_current(pool, &handle) == CUDA_SUCCESS && handle) {
        CUcontext owner = learn_owner(pool, handle);
        if (owner && owner != handle)
            order_make_current(&pool->order, owner, &pushed);
    }
    return pushed;
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
