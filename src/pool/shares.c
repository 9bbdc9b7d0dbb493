/* What requests ask of the driver and may not keep all of: until a record tells of it (take.c), or
 * it is given back, those that are refused because of it wait (out_of_memory.c), and so do ends of
 * contexts that would leave it behind (context_ends.c). It is not noted on the asking thread's
 * stack, which is gone if the thread is cancelled in the driver. */
#include "pool/internal.h"
#include "pool/uncancelled.h"

#include <stdlib.h>

struct share {
    uint64_t number;
    LIST_ENTRY(share) link;
};

/* NULL without host memory: then nobody waits for it. */
static struct share *begin_share(struct device *device) {
    struct share *share = malloc(sizeof *share);
    if (!share)
        return NULL;
    share->number = ++device->shares;
    LIST_INSERT_HEAD(&device->sharing, share, link);
    return share;
}

static void end_share(struct share *share) {
    LIST_REMOVE(share, link);
    free(share);
}

void source_shares(struct device *device, struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    obtained->share = begin_share(device);
}

void source_adopted(struct pool *pool, struct context *context, const struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    if (obtained->share)
        end_share(obtained->share);
    if (!obtained->in_driver_pool || PLANTED(adopted_after_end))
        return;
    pool_count_released(pool, context->device, 1);
    context_user_leaves(pool, context); /* which ends from now on */
}

void source_shares_nothing(struct pool *pool, struct obtained *obtained) {
    lock_check_none();
    if (!obtained->share)
        return;
    pool_lock(pool);
    end_share(obtained->share);
    pool_unlock(pool);
    obtained->share = NULL;
}

bool source_is_shared(const struct device *device, uint64_t last) {
    lock_check_held(LOCK_POOL);
    const struct share *share;
    LIST_FOREACH (share, &device->sharing, link)
        if (share->number <= last)
            return true;
    return false;
}

void source_forget_shares(struct device *device) {
    lock_check_held(LOCK_POOL);
    struct share *share = LIST_FIRST(&device->sharing), *next;
    LIST_INIT(&device->sharing);
    for (; share; share = next) {
        next = LIST_NEXT(share, link);
        free(share);
    }
}

void attempt_begins(struct context *context, struct attempt *attempt) {
    lock_check_held(LOCK_POOL);
    context->users++;
    context->device->attempting++;
    attempt->share = begin_share(context->device);
}

void attempt_takes(struct context *context, struct attempt *attempt) {
    lock_check_held(LOCK_POOL);
    context->device->releasing += !attempt->took;
    attempt->took = true;
}

void attempt_ends(struct pool *pool, struct context *context, const struct attempt *attempt,
                  bool undone) {
    lock_check_held(LOCK_POOL);
    context->device->attempting--;
    if (attempt->share)
        end_share(attempt->share);
    if (attempt->took)
        pool_count_released(pool, context->device, 1);
    else if (undone)
        futex_change(&pool->release_rounds);
    context_user_leaves(pool, context);
}

/* A thread that ended meanwhile would leave what it shares. */
CUresult source_obtain_sharing(struct pool *pool, const struct request *request, size_t size,
                               struct obtained *obtained) {
    lock_check_none();
    const struct pitch_request *pitch = request->pitch;
    int cancelling = uncancelled_begins(pool);
    CUresult result = request->context->source->obtain(pool, request, size, obtained);
    uncancelled_ends(pool, cancelling);
    if (pitch && result == CUDA_SUCCESS)
        *pitch->pitch = pitch->known;
    return result;
}
