/* Makes the device or the context current that a call names. */
#include "pool/internal.h"

static bool is_current(struct pool *pool, CUdevice device) {
    CUdevice current;
    return pool->driver->ctx_get_device(&current) == CUDA_SUCCESS && current == device;
}

/* The device's primary context, NULL if the pool does not know it. */
static CUcontext find_primary(struct pool *pool, CUdevice device) {
    const struct context *context;
    CUcontext found = NULL;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->ordinal == device && !context->created && !context->broken)
            found = context->handle;
    pool_unlock(pool);
    return found;
}

bool pool_push_device(struct pool *pool, CUdevice device, bool *pushed) {
    struct context_push visit;
    *pushed = false;
    if (is_current(pool, device))
        return true;
    CUcontext context = find_primary(pool, device);
    if (!context || !context_push(pool, context, &visit))
        return false;
    *pushed = visit.pushed;
    return true;
}

bool pool_push_context(struct pool *pool, CUcontext context, bool *pushed) {
    struct context_push visit;
    if (!pool_knows_context(pool, context) || !context_push(pool, context, &visit))
        return false;
    *pushed = visit.pushed;
    return true;
}

void pool_pop_device(struct pool *pool, bool pushed) {
    context_pop(pool, &(struct context_push){pushed});
}
