#include "pool/context_owners.h"

#include <stdlib.h>

/* Lock held. */
static const struct context_owner *find(const struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    const struct context_owner *known = pool->owners;
    while (known && known->handle != handle)
        known = known->next;
    return known;
}

/* Lock held. */
bool context_is_created(const struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    const struct context_owner *known = find(pool, handle);
    return known && known->made;
}

/* Lock held. */
CUcontext context_owner(const struct pool *pool, CUcontext handle) {
    lock_check_held(LOCK_POOL);
    const struct context_owner *known = pool->owners;
    while (known && known->handle != handle && known->owner != handle)
        known = known->next;
    return known ? known->owner : NULL;
}

/* Lock held. */
void context_add_owner(struct pool *pool, CUcontext handle, CUcontext owner, bool made) {
    lock_check_held(LOCK_POOL);
    struct context_owner *added = calloc(1, sizeof *added);
    if (!added)
        return;
    *added = (struct context_owner){handle, owner, made, pool->owners};
    pool->owners = added;
}

void context_forget_owner(struct pool *pool, CUcontext handle) {
    struct context_owner **link = &pool->owners;
    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    struct context_owner *gone = *link;
    if (gone)
        *link = gone->next;
    free(gone);
}

/* Lock held. */
void context_forget_learnt_owners(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct context_owner *known = pool->owners;
    while (known) {
        struct context_owner *next = known->next;
        if (!known->made)
            context_forget_owner(pool, known->handle);
        known = next;
    }
}

void context_forget_owners(struct pool *pool) {
    while (pool->owners)
        context_forget_owner(pool, pool->owners->handle);
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

/* Lock not held. */
bool context_may_be_green(struct pool *pool, CUcontext handle) {
    lock_check_none();
    pool_lock(pool);
    CUcontext owner = context_owner(pool, handle);
    pool_unlock(pool);
    return (owner ? owner : pool_owner_of_current(pool)) != handle;
}
