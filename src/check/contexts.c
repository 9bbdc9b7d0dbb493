/* The contexts in which blocks are checked. What green contexts share with their primary one is
 * checked in that one: its events cover the work of all of them. */
#include "check/internal.h"

#include "pool/uncancelled.h"

#include <stdlib.h>

static struct check_context *find(struct check *check, CUcontext handle) {
    struct check_context *context;
    LIST_FOREACH (context, &check->contexts, link)
        if (context->handle == handle && !context->ended)
            return context;
    return NULL;
}

struct check_context *context_of_current(struct check *check) {
    lock_check_none();
    CUcontext handle = pool_owner_of_current(check->pool);
    check_lock(check);
    struct check_context *context = handle ? find(check, handle) : NULL;
    check_unlock(check);
    return context;
}

static struct check_context *new_context(struct check *check, CUcontext handle) {
    static const uint64_t most = 256 << 20;
    size_t total = 0;
    CUdevice device;
    if (check->driver->ctx_get_device(&device) != CUDA_SUCCESS ||
        check->driver->device_total_mem(&total, device) != CUDA_SUCCESS)
        return NULL;
    struct check_context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    context->handle = handle;
    context->device = device;
    context->created = pool_context_is_created(check->pool, handle);
    context->limit = limit_in_bytes(&check->config.check_quarantine, total,
                                    total / 64 < most ? total / 64 : most);
    TAILQ_INIT(&context->idle);
    TAILQ_INIT(&context->running);
    TAILQ_INIT(&context->bare);
    TAILQ_INIT(&context->quarantine);
    TAILQ_INIT(&context->left);
    return context;
}

/* Makes what the check needs in the context. NULL: it cannot now. */
static struct check_context *open_new(struct check *check, CUcontext handle) {
    struct check_context *context = NULL;
    bool pushed;
    if (!pool_gate_enter(check->pool))
        return NULL;
    if (pool_push_owner(check->pool, handle, &pushed)) {
        context = new_context(check, handle);
        if (context)
            gpu_open(check, context);
        pool_pop_device(check->pool, pushed);
    }
    pool_gate_leave(check->pool);
    return context;
}

static bool begin_making(struct check *check, uint64_t *ends) {
    check_lock(check);
    bool begins = closing_making_begins(check, ends);
    check_unlock(check);
    return begins;
}

/* Adds the record, which may be NULL, unless there is one by now, or the context may have ended
 * meanwhile. Returns the one that counts. */
static struct check_context *add(struct check *check, struct check_context *context,
                                 CUcontext handle, uint64_t ends) {
    check_lock(check);
    bool valid = closing_making_is_over(check, ends);
    struct check_context *known = find(check, handle);
    if (!known && context && valid)
        LIST_INSERT_HEAD(&check->contexts, known = context, link);
    check_unlock(check);
    return known;
}

/* What a thread makes that loses the race is freed with its context, and is the check's no more. */
static struct check_context *make(struct check *check, CUcontext handle) {
    uint64_t ends;
    if (!begin_making(check, &ends))
        return NULL;
    int cancelling = uncancelled_begins(check->pool);
    struct check_context *context = open_new(check, handle);
    struct check_context *known = add(check, context, handle, ends);
    uncancelled_ends(check->pool, cancelling);
    if (context && known != context) {
        own_forget(check, context);
        gpu_forget(context);
        free(context);
    }
    return known;
}

struct check_context *context_to_check(struct check *check) {
    lock_check_none();
    CUcontext handle = pool_owner_of_current(check->pool);
    if (!handle)
        return NULL;
    check_lock(check);
    struct check_context *context = find(check, handle);
    bool usable = !context || (context_is_there(context) && !context->closing);
    check_unlock(check);
    if (!context)
        context = make(check, handle);
    return usable && context && context->ready ? context : NULL;
}

bool context_use(struct check *check, struct check_context *context) {
    lock_check_held(LOCK_CHECK);
    bool used = context_is_there(context) && !context->closing;
    if (used)
        closing_add_user(check, context);
    return used;
}

bool context_begin_use(struct check *check, struct check_context *context) {
    lock_check_none();
    check_lock(check);
    bool used = context_use(check, context);
    check_unlock(check);
    return used;
}

struct check_context *context_use_current(struct check *check) {
    lock_check_none();
    struct check_context *context = context_of_current(check);
    return context && context_begin_use(check, context) ? context : NULL;
}

void context_end(struct check *check, struct check_context *context) {
    lock_check_none();
    struct check_block *block, *next;
    check_lock(check);
    context->ended = true;
    LIST_INIT(&context->every);
    for (block = block_from(check, 0); block; block = next) {
        next = block_from(check, block->base + 1);
        if (block->context != context)
            continue;
        block_detach(check, block);
        block_remove(check, block);
    }
    check_unlock(check);
    own_forget(check, context);
    gpu_forget(context);
}
