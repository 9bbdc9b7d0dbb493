/* What checking does besides allocations and frees: when the program asks, works, and waits. */
#include "check/internal.h"

/* --- what the program may know of pointers --- */

enum pool_pointer_state check_find(struct check *check, CUdeviceptr pointer, CUdeviceptr *base,
                                   size_t *bytes) {
    enum pool_pointer_state state = POOL_POINTER_UNKNOWN;
    check_lock(check);
    const struct check_block *block = block_around(check, pointer);
    if (block) {
        bool live = block->state == CHECK_LIVE || block->state == CHECK_DETACHED;
        bool inside = pointer >= block->user && pointer - block->user < block->bytes;
        state = live && inside ? POOL_POINTER_LIVE : POOL_POINTER_IDLE;
        *base = block->user;
        *bytes = block->bytes;
    }
    check_unlock(check);
    return !block && check_owns(check, pointer) ? POOL_POINTER_IDLE : state;
}

size_t check_quarantined(struct check *check) {
    const struct check_context *context;
    CUdevice device;
    size_t bytes = 0;
    if (check->driver->ctx_get_device(&device) != CUDA_SUCCESS)
        return 0;
    check_lock(check);
    LIST_FOREACH (context, &check->contexts, link)
        if (!context->ended && context->device == device)
            bytes += context->quarantined + context->leaving;
    check_unlock(check);
    return bytes;
}

/* The next context of the device, in use until context_end_use. They never leave the list. */
static struct check_context *use_next(struct check *check, struct check_context *after,
                                      CUdevice device) {
    check_lock(check);
    struct check_context *context = after ? LIST_NEXT(after, link) : LIST_FIRST(&check->contexts);
    while (context && !(context->device == device && context_use(check, context)))
        context = LIST_NEXT(context, link);
    check_unlock(check);
    return context;
}

bool check_make_room(struct check *check) {
    struct check_context *context = NULL;
    CUdevice device;
    bool made = false;
    if (check->driver->ctx_get_device(&device) != CUDA_SUCCESS)
        return false;
    while ((context = use_next(check, context, device))) {
        made |= quarantine_empty(check, context);
        context_end_use(check, context);
    }
    return closing_await(check, device) || made;
}

/* --- the program's work, and its waits --- */

void check_work(struct check *check) {
    struct check_context *context = context_of_current(check);
    if (context && context_begin_use(check, context)) {
        fills_await(check, context);
        context_end_use(check, context);
    }
    check_lock(check);
    if (context)
        context->work++;
    check_unlock(check);
}

void check_before_wait(struct check *check, const char *call) {
    struct check_context *context = context_use_current(check);
    if (!context)
        return;
    struct check_launch *launch = gpu_take_launch(check, context);
    if (launch) {
        check_lock(check);
        launch->occasion = (struct check_occasion){.moment = CHECK_AT_WAIT, .call = call};
        quarantine_fill_zones(context, launch);
        quarantine_verify_some(context, launch);
        check_unlock(check);
        gpu_submit(check, context, launch);
    }
    context_end_use(check, context);
}

void check_after_wait(struct check *check) {
    struct check_context *context = context_use_current(check);
    if (!context)
        return;
    results_finish(check, context);
    context_end_use(check, context);
}

void check_after_work(struct check *check, const char *call, CUfunction kernel,
                      const struct call_site *at) {
    struct check_context *context =
        check->config.after_launches ? context_use_current(check) : NULL;
    if (!context)
        return;
    struct check_occasion occasion = {.moment = CHECK_AT_LAUNCH, .call = call, .at = *at};
    gpu_kernel_name(check, kernel, occasion.kernel);
    if (gpu_wait_for_context(check, context))
        verify_all(check, context, &occasion);
    context_end_use(check, context);
}
