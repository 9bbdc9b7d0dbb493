/* The ends of contexts and of the process: what is left is verified, reported and forgotten. */
#include "check/internal.h"

#include "counters/stats.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The block with the lowest base from *from on, as it is now; *from is then where to go on. */
static bool next_block(struct check *check, CUdeviceptr *from, struct check_block *copy) {
    check_lock(check);
    const struct check_block *block = block_from(check, *from);
    if (block) {
        *copy = *block;
        *from = block->base + 1;
    }
    check_unlock(check);
    return block != NULL;
}

static void report_leaks(struct check *check, const struct check_context *context) {
    struct check_block block;
    for (CUdeviceptr from = 0; check->config.check_leaks && next_block(check, &from, &block);)
        if (block.context == context && block.state == CHECK_LIVE)
            report_leak(check, &block);
}

/* --- contexts --- */

/* Announces the end of the context of that handle, or of all of the device if it is NULL. */
static void announce(struct check *check, CUcontext handle, CUdevice device) {
    struct check_context *context;
    check_lock(check);
    LIST_FOREACH (context, &check->contexts, link)
        if (!context->ended && (handle ? context->handle == handle : context->device == device))
            context->ending = true;
    check_unlock(check);
}

/* The next context whose end is announced. Contexts never leave the list. */
static struct check_context *next_ending(struct check *check, const struct check_context *after) {
    struct check_context *context;
    check_lock(check);
    context = after ? LIST_NEXT(after, link) : LIST_FIRST(&check->contexts);
    while (context && !context->ending)
        context = LIST_NEXT(context, link);
    check_unlock(check);
    return context;
}

static bool use(struct check *check, struct check_context *context) {
    check_lock(check);
    bool used = context_use(context);
    check_unlock(check);
    return used;
}

static void verify_ending(struct check *check, CUcontext handle, CUdevice device) {
    const struct check_occasion occasion = {.moment = CHECK_AT_END};
    struct check_context *context = NULL;
    announce(check, handle, device);
    while ((context = next_ending(check, context)))
        if (use(check, context)) {
            verify_all(check, context, &occasion);
            context_end_use(check, context);
        }
}

void check_context_ending(struct check *check, CUcontext context) {
    verify_ending(check, context, 0);
}

void check_primary_ending(struct check *check, CUdevice device) {
    verify_ending(check, NULL, device);
}

void check_green_ending(struct check *check, CUcontext handle) {
    struct check_context *context = NULL;
    verify_ending(check, handle, 0);
    while ((context = next_ending(check, context)))
        if (context->handle == handle && use(check, context)) {
            context->outlived = true;
            quarantine_shrink(check, context, 0);
            results_await(check, context);
            context_end_use(check, context);
        }
}

void check_contexts_ended(struct check *check) {
    struct check_context *context = NULL;
    while ((context = next_ending(check, context))) {
        context->ending = false;
        if (pool_knows_context(check->pool, context->handle))
            continue;
        report_leaks(check, context);
        context_end(check, context);
    }
}

/* --- the process --- */

/* Reads pinned memory, which may be gone with its context. */
static bool peek(void *to, void *from, size_t bytes) {
    struct iovec copy = {to, bytes}, original = {from, bytes};
    return syscall(SYS_process_vm_readv, getpid(), &copy, 1, &original, 1, 0) == (long)bytes;
}

/* Reports what launches have found whose end nobody has waited for. The driver may be gone
 * already. */
static void report_late(struct check *check, struct check_context *context) {
    for (;;) {
        struct check_failure failure;
        struct check_task task;
        check_lock(check);
        struct check_launch *launch = TAILQ_FIRST(&context->running);
        if (launch)
            TAILQ_REMOVE(&context->running, launch, in_list);
        check_unlock(check);
        if (!launch)
            return;
        if (peek(&failure, launch->failure, sizeof failure) && failure.id < launch->count &&
            peek(&task, &launch->tasks[failure.id], sizeof task))
            results_tell(check, launch, &task, &failure);
    }
}

static void count_unverified(struct check *check, struct check_unverified *sum) {
    struct check_block block;
    for (CUdeviceptr from = 0; next_block(check, &from, &block);) {
        check_lock(check);
        bool unverified = block_is_unverified(&block);
        check_unlock(check);
        if (!unverified)
            continue;
        if (block.state == CHECK_LIVE) {
            sum->live++;
        } else if (block.state == CHECK_QUARANTINED || block.state == CHECK_LEAVING) {
            sum->freed++;
            sum->freed_bytes += block.bytes;
        }
    }
}

uint64_t check_finish(struct check *check) {
    struct check_unverified unverified = {0};
    struct check_context *context;
    LIST_FOREACH (context, &check->contexts, link) {
        if (context->ended || context->lost)
            continue;
        report_late(check, context);
        report_leaks(check, context);
    }
    count_unverified(check, &unverified);
    return report_end(check, &unverified);
}
