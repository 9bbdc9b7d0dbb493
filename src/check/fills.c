/* The program's work comes after the filling of what has been freed before it.
 *
 * A free that waits for nothing (POOLCUDA_FREE=defer) leaves the filling to the GPU, behind all
 * work that has been submitted. A write that the program submits then, in a stream that is idle,
 * would come before the filling, which would wipe it out. So it is submitted when the block is
 * filled. A thread waits for its own frees without limit: natively each of them would have waited
 * for just that work, at an earlier time. What another thread has freed natively ends that thread's
 * free, but keeps nobody else from submitting work, and what the free waits for may be waiting for
 * that work. That is waited for only where the free has returned, which says that it natively would
 * be over; and not for long, as there it may be over too early. An event that the program's streams
 * wait for would not do in place of the wait: work of a third thread may come to stand behind it.
 */
#include "check/internal.h"

#include "thread_marks.h"

enum { LOOKS = 5000 }; /* a quarter of a second */

static bool is_own(const struct check_launch *launch) {
    return launch->freed_by == thread_number();
}

/* What is to be waited for. */
struct fill {
    struct check_launch *launch;
    uint64_t number;
    bool own;
};

/* Finds a launch that fills what this thread has freed, else one of another thread's whose free has
 * returned. False: there is none that is to be waited for. */
static bool find(struct check *check, const struct check_context *context, struct fill *found) {
    struct check_launch *launch;
    bool given_up = false;
    *found = (struct fill){0};
    check_lock(check);
    LIST_FOREACH (launch, &context->every, in_every) {
        bool own = is_own(launch), fills = launch->number && launch->freed_by;
        given_up |= fills && launch->given_up;
        if (fills && (own || (launch->free_over && !found->own)))
            *found = (struct fill){launch, launch->number, own};
    }
    check_unlock(check);
    return found->own || (found->launch && !given_up);
}

/* Notes what has come of the wait. */
static void note(struct check *check, const struct fill *fill, bool filled) {
    check_lock(check);
    bool still = fill->launch->number == fill->number;
    if (still && filled)
        fill->launch->freed_by = 0;
    else if (still)
        fill->launch->given_up = true;
    check_unlock(check);
}

void fills_await(struct check *check, struct check_context *context) {
    lock_check_none();
    struct fill fill;
    bool awaited = false;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && find(check, context, &fill)) {
        int looks = fill.own ? GPU_LOOKS_WITHOUT_END : LOOKS;
        awaited = true;
        result = gpu_await(check, context, fill.launch, fill.number, looks);
        if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY)
            note(check, &fill, result == CUDA_SUCCESS);
    }
    if (awaited) /* what is known to be filled is looked at again */
        results_read_and_keep(check, context);
}

void fills_free_is_over(struct check *check, struct check_context *context) {
    lock_check_none();
    struct check_launch *launch;
    check_lock(check);
    LIST_FOREACH (launch, &context->every, in_every)
        launch->free_over |= is_own(launch);
    check_unlock(check);
}
