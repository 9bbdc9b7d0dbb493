/* Contexts that are about to end.
 *
 * What the check has in a context goes with it: launches lie in pinned memory of the context's,
 * which the driver frees, and whoever writes to it then ends the process. The program may end a
 * context while its other threads allocate and free there. So from the announcement of an end on
 * nobody begins to use the context, and before the driver is called, those who use it are waited
 * for. Meanwhile blocks are served and freed unchecked: to hold their callers up would be to wait
 * for the end, which may itself wait for them. Where the context stays, all goes on as before.
 *
 * The record of a context that is about to end may be in the making just then, by a thread that
 * knows nothing of the end. It is waited for in the same way, and what it makes is thrown away. */
#include "check/internal.h"

#include "base/clock.h"
#include "base/futex.h"
#include "pool/uncancelled.h"

/* A thread that does not come back waits for what comes after the end, or a signal's handler has
 * left it with longjmp. */
static const uint64_t LOST_NS = UINT64_C(5000000000);

static bool is_meant(const struct check_context *context, const struct check_end *end) {
    return end->handle ? context->handle == end->handle
                       : context->device == end->device && !context->created;
}

/* Until `resting` changes, or a moment is over. Lock held on entry and return, not in between. */
static void await_change(struct check *check) {
    lock_check_held(LOCK_CHECK);
    const struct timespec most = {.tv_nsec = 100 * 1000 * 1000};
    int seen = atomic_load(&check->resting);
    check_unlock(check);
    futex_wait(&check->resting, seen, &most);
    check_lock(check);
}

/* Waits until none of these is there any more, or they are given up. Lock held on entry and return,
 * not in between. */
static void await_rest(struct check *check, int *users) {
    lock_check_held(LOCK_CHECK);
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    while (*users && clock_ns(CLOCK_MONOTONIC) - began < LOST_NS)
        await_change(check);
    *users = 0;
}

void closing_begins(struct check *check, const struct check_end *end) {
    lock_check_none();
    struct check_context *context;
    check_lock(check);
    check->ends++;
    check->ends_begun++;
    LIST_FOREACH (context, &check->contexts, link)
        context->closing += is_meant(context, end);
    await_rest(check, &check->makers);
    check_unlock(check);
}

struct check_context *closing_next(struct check *check, struct check_context *after,
                                   const struct check_end *end) {
    lock_check_none();
    check_lock(check);
    struct check_context *context = after ? LIST_NEXT(after, link) : LIST_FIRST(&check->contexts);
    while (context && (context->ended || !is_meant(context, end)))
        context = LIST_NEXT(context, link);
    check_unlock(check);
    return context;
}

/* How many contexts this thread uses; and what uncancelled_ends takes at last. */
static _Thread_local struct {
    int count, cancelling;
} own_uses __attribute__((tls_model("initial-exec")));

void closing_add_user(struct check *check, struct check_context *context) {
    lock_check_held(LOCK_CHECK);
    context->users++;
    if (!own_uses.count++)
        own_uses.cancelling = uncancelled_begins(check->pool);
}

void context_end_use(struct check *check, struct check_context *context) {
    lock_check_none();
    check_lock(check);
    bool last = context->users && --context->users == 0; /* else it has been given up */
    check_unlock(check);
    if (last)
        futex_change(&check->resting);
    if (!--own_uses.count)
        uncancelled_ends(check->pool, own_uses.cancelling);
}

bool closing_use(struct check *check, struct check_context *context) {
    lock_check_none();
    check_lock(check);
    bool used = context_is_there(context);
    if (used)
        closing_add_user(check, context);
    check_unlock(check);
    return used;
}

void closing_shut(struct check *check, const struct check_end *end) {
    lock_check_none();
    struct check_context *context;
    check_lock(check);
    LIST_FOREACH (context, &check->contexts, link)
        if (!context->ended && is_meant(context, end)) {
            await_rest(check, &context->users);
            context->shut = true;
        }
    check_unlock(check);
}

void closing_is_over(struct check *check, const struct check_end *end) {
    lock_check_none();
    struct check_context *context;
    check_lock(check);
    LIST_FOREACH (context, &check->contexts, link)
        if (is_meant(context, end) && --context->closing == 0)
            context->shut = false;
    check->ends--;
    futex_change(&check->resting);
    check_unlock(check);
}

/* Lock held. */
static bool keeps_memory(const struct check *check, CUdevice device) {
    lock_check_held(LOCK_CHECK);
    const struct check_context *context;
    LIST_FOREACH (context, &check->contexts, link)
        if (context->closing && !context->ended && context->device == device &&
            context->quarantined + context->leaving > 0)
            return true;
    return false;
}

bool closing_await(struct check *check, CUdevice device) {
    lock_check_none();
    static const uint64_t MOST_NS = UINT64_C(1000000000); /* as the pool for another thread */
    uint64_t began = clock_ns(CLOCK_MONOTONIC);
    check_lock(check);
    bool keeps = keeps_memory(check, device), kept = keeps;
    while (keeps && clock_ns(CLOCK_MONOTONIC) - began < MOST_NS) {
        await_change(check);
        keeps = keeps_memory(check, device);
    }
    check_unlock(check);
    return kept && !keeps;
}

bool closing_making_begins(struct check *check, uint64_t *ends) {
    lock_check_held(LOCK_CHECK);
    bool begins = !check->ends;
    check->makers += begins;
    *ends = check->ends_begun;
    return begins;
}

bool closing_making_is_over(struct check *check, uint64_t ends) {
    lock_check_held(LOCK_CHECK);
    if (check->makers && --check->makers == 0) /* else it has been given up */
        futex_change(&check->resting);
    return check->ends_begun == ends;
}
