/* What launches have found.
 *
 * A launch reports one failure, the first. Zones and freed memory stay as they are, so the rest of
 * the launch is made again without the block of that failure until nothing is found any more. */
#include "check/internal.h"

void results_tell(struct check *check, const struct check_launch *launch,
                  const struct check_task *task, const struct check_failure *failure) {
    lock_check_none();
    check_lock(check);
    struct check_block *block = launch->blocks[failure->id], copy = *block;
    bool tell = !block->reported && !block->context->lost;
    block->reported = true;
    check_unlock(check);
    if (tell)
        report_write(check, &copy, task->address + failure->first,
                     failure->last - failure->first + 1, &launch->occasion);
}

/* The launch is the caller's. Returns whether there is more to find, with the launch ready to be
 * submitted again; else it is idle. */
static bool read_result(struct check *check, struct check_context *context,
                        struct check_launch *launch) {
    const struct check_failure failure = *launch->failure;
    if (failure.id >= launch->count) { /* no task has that number: there is no failure */
        check_lock(check);
        tasks_finish(launch, true);
        check_unlock(check);
        gpu_make_idle(check, context, launch);
        return false;
    }
    results_tell(check, launch, &launch->tasks[failure.id], &failure);
    check_lock(check);
    tasks_drop(launch, launch->blocks[failure.id]); /* which may be gone then */
    check_unlock(check);
    return true;
}

/* Takes the memory of the first block that has left, 0: there is none. Its record goes. */
static CUdeviceptr take_left(struct check *check, struct check_context *context, bool *waited) {
    check_lock(check);
    struct check_block *block = TAILQ_FIRST(&context->left);
    CUdeviceptr base = block ? block->base : 0;
    *waited = block && !block->unwaited;
    if (block)
        block_remove(check, block);
    check_unlock(check);
    return base;
}

/* Gives blocks that nothing uses any more back: from here on the pool may hand them out, or have
 * the driver free them, which a capture forbids. */
static void give_back(struct check *check, struct check_context *context) {
    bool pushed, waited;
    CUdeviceptr base;
    if (!pool_gate_enter(check->pool))
        return;
    if (pool_push_context(check->pool, context->handle, &pushed)) {
        while ((base = take_left(check, context, &waited)))
            pool_free_waited(check->pool, base, waited);
        pool_pop_device(check->pool, pushed);
    }
    pool_gate_leave(check->pool);
}

void results_read_and_keep(struct check *check, struct check_context *context) {
    lock_check_none();
    struct check_launch *launch;
    while ((launch = gpu_take_ended(check, context)))
        if (read_result(check, context, launch))
            gpu_submit(check, context, launch);
}

void results_read(struct check *check, struct check_context *context) {
    lock_check_none();
    results_read_and_keep(check, context);
    check_lock(check);
    bool left = !TAILQ_EMPTY(&context->left);
    check_unlock(check);
    if (left)
        give_back(check, context);
}

static bool is_running(struct check *check, const struct check_context *context) {
    check_lock(check);
    bool running = !TAILQ_EMPTY(&context->running) && context_is_there(context);
    check_unlock(check);
    return running;
}

bool results_await(struct check *check, struct check_context *context) {
    lock_check_none();
    bool running;
    do {
        running = is_running(check, context);
        if (running && !gpu_wait(check, context))
            return false;
        results_read(check, context);
    } while (running);
    return true;
}

void results_finish(struct check *check, struct check_context *context) {
    lock_check_none();
    results_read(check, context);
    while (is_running(check, context) && gpu_is_alone(check, context) && gpu_wait(check, context))
        results_read(check, context);
}

struct check_launch *results_take_for_free(struct check *check, struct check_context *context) {
    lock_check_none();
    enum { TRIES = CHECK_LAUNCHES }; /* others may take what has ended */
    results_read(check, context);
    struct check_launch *launch = gpu_take_launch(check, context);
    for (int i = 0; !launch && i < TRIES && gpu_await_first(check, context); i++) {
        results_read(check, context);
        launch = gpu_take_launch(check, context);
    }
    return launch;
}

struct check_launch *results_take_for_zones(struct check *check, struct check_context *context) {
    lock_check_none();
    struct check_launch *ended;
    results_read(check, context);
    struct check_launch *launch = gpu_take_launch_for_zones(check, context);
    while (!launch && (ended = gpu_take_copied(check, context))) {
        read_result(check, context, ended);
        launch = gpu_take_launch_for_zones(check, context);
    }
    return launch;
}
