/* The ends of contexts and of the process: what is left is verified, reported and forgotten. */
#include "check/internal.h"

#include "counters/stats.h"

#include <errno.h>
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

static void verify_ending(struct check *check, const struct check_end *end) {
    const struct check_occasion occasion = {.moment = CHECK_AT_END};
    struct check_context *context = NULL;
    while ((context = closing_next(check, context, end)))
        if (closing_use(check, context)) {
            if (!end->at_once || gpu_is_idle(check, context))
                verify_all(check, context, &occasion);
            context_end_use(check, context);
        }
}

static void begin_end(struct check *check, const struct check_end *end) {
    closing_begins(check, end);
    verify_ending(check, end);
    closing_shut(check, end);
}

/* Reads pinned memory, which may be gone with its context: then errno is EFAULT. */
static bool peek(void *to, void *from, size_t bytes) {
    struct iovec copy = {to, bytes}, original = {from, bytes};
    return syscall(SYS_process_vm_readv, getpid(), &copy, 1, &original, 1, 0) == (long)bytes;
}

/* Whether the driver has freed the pinned memory: a call that fails may yet have ended the context,
 * as after an error of earlier work. */
static bool is_gone(struct check *check, struct check_context *context) {
    struct check_failure failure;
    int kept = errno;
    check_lock(check);
    struct check_launch *launch = TAILQ_FIRST(&context->idle);
    if (!launch)
        launch = TAILQ_FIRST(&context->running);
    void *memory = launch ? launch->failure : NULL;
    check_unlock(check);
    bool gone = memory && !peek(&failure, memory, sizeof failure) && errno == EFAULT;
    errno = kept;
    return gone;
}

static void finish_end(struct check *check, const struct check_end *end, bool ended) {
    struct check_context *context = NULL;
    while ((context = closing_next(check, context, end)))
        if (ended || is_gone(check, context)) {
            report_leaks(check, context);
            context_end(check, context);
        }
    closing_is_over(check, end);
}

void check_context_ending(struct check *check, CUcontext context) {
    begin_end(check, &(struct check_end){.handle = context});
}

void check_primary_ending(struct check *check, CUdevice device) {
    begin_end(check, &(struct check_end){.device = device});
}

void check_green_ending(struct check *check, CUdevice device) {
    begin_end(check, &(struct check_end){.device = device, .at_once = true});
}

void check_context_ended(struct check *check, CUcontext context, bool ended) {
    finish_end(check, &(struct check_end){.handle = context}, ended);
}

void check_primary_ended(struct check *check, CUdevice device, bool ended) {
    finish_end(check, &(struct check_end){.device = device}, ended);
}

/* --- the process --- */

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

bool check_is_at_rest(struct check *check, int (*try_lock)(pthread_mutex_t *)) {
    bool rests = !try_lock(&check->lock);
    if (rests)
        pthread_mutex_unlock(&check->lock);
    return rests;
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
