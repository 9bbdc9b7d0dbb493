/* Idle memory that is asked for: by the program itself, by another process that is out of memory,
 * or by the user's `poolcuda trim`.
 *
 * What others ask for comes at any moment of the program's life. The driver's free waits for the
 * work of the block's context, and a program may count on its allocation not to: a kernel may be
 * waiting for what the host does next. So such requests leave a context alone unless all of its
 * work is done, or the program is freeing memory of it, which waits as well. */
#include "pool/internal.h"

enum { MOST_CONTEXTS = 64 };

static bool is_seen(struct context *const *seen, size_t count, const struct context *context) {
    for (size_t i = 0; i < count; i++)
        if (seen[i] == context)
            return true;
    return false;
}

/* A context of the device with idle memory that has not been seen. Lock held. Records of contexts
 * stay when they end, so the pointer holds without it. */
static struct context *next_context(struct pool *pool, int device, struct context *const *seen,
                                    size_t count) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    LIST_FOREACH (context, &pool->contexts, link)
        if ((device < 0 || context->device->ordinal == device) && device_idle(context->device) &&
            !context->broken && !is_seen(seen, count, context))
            return context;
    return NULL;
}

/* Whether a free of the context's memory would wait for nothing. Lock not held. */
static bool is_quiet(struct pool *pool, struct context *context) {
    lock_check_none();
    struct context_push visit;
    if (!context_push(pool, context->handle, &visit))
        return false;
    bool quiet = context_is_quiet(pool, context);
    context_pop(pool, &visit);
    return quiet;
}

/* Gives up so much of the context's idle memory, unless that would wait for work: false. current:
 * the context whose work may be waited for. Lock held on entry and return, not in between. */
static bool give_up_of(struct pool *pool, struct context *context, CUcontext current, size_t bytes,
                       size_t *released) {
    lock_check_held(LOCK_POOL);
    pool_unlock(pool);
    bool free_to_go = (current && context->handle == current) || is_quiet(pool, context);
    pool_lock(pool);
    bool waits = current && context->handle == current;
    struct release_list releases = {.device = context->device, .own = context};
    releases.waits = waits ? RELEASE_WAITS_ONCE : RELEASE_IF_QUIET;
    releases.quiet = waits ? NULL : context;
    if (free_to_go && !context->ended) {
        release_collect(pool, &(struct release_scope){context->device, context, true, false}, bytes,
                        &releases);
        *released += release_list_give_back(pool, &releases);
    }
    return free_to_go;
}

bool pool_give_up(struct pool *pool, int device, size_t bytes, bool may_wait, size_t *released) {
    struct context *seen[MOST_CONTEXTS], *context;
    CUcontext current;
    size_t count = 0;
    bool complete = true;
    *released = 0;
    if (atomic_load(&pool->captures) || atomic_load(&pool->down))
        return true;
    if (!may_wait || context_current(pool, &current) != CUDA_SUCCESS)
        current = NULL;
    pool_lock(pool);
    while (count < MOST_CONTEXTS && *released < bytes &&
           (context = next_context(pool, device, seen, count))) {
        seen[count++] = context;
        if (!give_up_of(pool, context, current, bytes - *released, released))
            complete = false;
    }
    pool_unlock(pool);
    return complete;
}

bool pool_uses_device(struct pool *pool, CUdevice ordinal) {
    pool_lock(pool);
    bool uses = context_find_device(pool, ordinal);
    pool_unlock(pool);
    return uses;
}

size_t pool_release(struct pool *pool, CUdevice ordinal, size_t bytes) {
    size_t released = 0;
    if (atomic_load(&pool->captures) || atomic_load(&pool->down))
        return 0;
    pool_lock(pool);
    struct device *device = context_find_device(pool, ordinal);
    if (device) {
        struct release_list releases = {.device = device};
        if (!pool_driver_waits(pool))
            fence_drain(pool, device);
        memory_refresh(pool, device);
        release_collect(pool, &(struct release_scope){device, NULL, true, false}, bytes, &releases);
        released = release_list_give_back(pool, &releases);
    }
    pool_unlock(pool);
    return released;
}
