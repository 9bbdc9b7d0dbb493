/* Makes the device or the context current that is meant, as long as it does not end: see
 * src/order/visits.c. */
#include "pool/internal.h"

bool context_push_ending(struct pool *pool, CUcontext context, struct context_push *visit) {
    return order_make_current(&pool->order, context, &visit->pushed);
}

/* Only while the handle is given to the driver: what follows may wait. */
bool context_push(struct pool *pool, CUcontext context, struct context_push *visit) {
    visit->pushed = false;
    if (!order_visit_begins(&pool->order, context))
        return false;
    bool pushed = context_push_ending(pool, context, visit);
    order_visit_ends(&pool->order, context);
    return pushed;
}

void context_pop(struct pool *pool, struct context_push *visit) {
    order_make_former_current(&pool->order, visit->pushed);
}

/* The contexts that end with the device's primary one, which are few. */
enum { MOST_PRIMARY = 16 };
static int list_primary(struct pool *pool, CUdevice ordinal, CUcontext *handles) {
    const struct context *context;
    int count = 0;
    pool_lock(pool);
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->ordinal == ordinal && !context->created && count < MOST_PRIMARY &&
            context_is_first(pool, context))
            handles[count++] = context->handle;
    pool_unlock(pool);
    return count;
}

void visits_close_primary(struct pool *pool, CUdevice ordinal) {
    lock_check_none();
    CUcontext handles[MOST_PRIMARY];
    int count = list_primary(pool, ordinal, handles);
    while (count--)
        order_context_closes(&pool->order, handles[count]);
}

void visits_primary_stays(struct pool *pool, CUdevice ordinal) {
    lock_check_none();
    CUcontext handles[MOST_PRIMARY];
    int count = list_primary(pool, ordinal, handles);
    while (count--)
        order_context_stays(&pool->order, handles[count]);
}

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

bool pool_knows_context(struct pool *pool, CUcontext context) {
    pool_lock(pool);
    bool known = context_is_known(pool, context);
    pool_unlock(pool);
    return known;
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
