/* Freed blocks: kept from reuse for a while, and looked at now and then. */
#include "check/internal.h"

void quarantine_fill_zones(struct check_context *context, struct check_launch *launch) {
    lock_check_held(LOCK_CHECK);
    struct check_block *block;
    while ((block = TAILQ_FIRST(&context->bare)) && tasks_zones(launch, block, CHECK_FILL))
        continue; /* the block has left the list */
}

/* The next block to be looked at, round and round. */
static struct check_block *next(struct check_context *context) {
    struct check_block *block =
        context->cursor ? context->cursor : TAILQ_FIRST(&context->quarantine);
    if (block)
        context->cursor = TAILQ_NEXT(block, in_list);
    return block;
}

void quarantine_verify_some(struct check_context *context, struct check_launch *launch) {
    lock_check_held(LOCK_CHECK);
    enum { LOOKS = 512 };
    const uint64_t most = 1 << 20;
    struct check_block *first = NULL, *block;
    uint64_t bytes = 0, added = 1;
    for (int looks = 0; looks < LOOKS && bytes < most && added; looks++) {
        struct check_block *before = context->cursor;
        if (!(block = next(context)) || block == first)
            return;
        if (!first)
            first = block;
        if (!block_is_unverified(block) || block->uses)
            continue;
        bytes += added = tasks_verify(launch, block);
        if (!added)
            context->cursor = before;
    }
}

/* Evicts the oldest blocks: in the launch that verifies them once more they leave. Lock held. */
static void evict_oldest(struct check *check, struct check_context *context,
                         struct check_launch *launch, uint64_t bytes) {
    lock_check_held(LOCK_CHECK);
    enum { BLOCKS = 64 };
    struct check_block *block;
    launch->occasion = (struct check_occasion){.moment = CHECK_AT_REUSE};
    for (int i = 0; i < BLOCKS && context->quarantined > bytes; i++) {
        block = TAILQ_FIRST(&context->quarantine);
        if (!block->reported && !tasks_verify(launch, block))
            return;
        block_set_state(check, block, CHECK_LEAVING);
    }
}

/* How many bytes are kept from reuse. */
static uint64_t kept_in(struct check *check, const struct check_context *context) {
    check_lock(check);
    uint64_t bytes = context_is_there(context) ? context->quarantined + context->leaving : 0;
    check_unlock(check);
    return bytes;
}

bool quarantine_empty(struct check *check, struct check_context *context) {
    lock_check_none();
    enum { ROUNDS = 8 }; /* that free nothing: other threads have all launches, or free as much */
    uint64_t before = kept_in(check, context), least = before;
    for (int rounds = 0; least && rounds < ROUNDS; rounds++) {
        quarantine_shrink(check, context, 0);
        if (!results_await(check, context))
            break;
        uint64_t kept = kept_in(check, context);
        if (kept < least)
            rounds = 0;
        least = kept < least ? kept : least;
    }
    return least < before;
}

void quarantine_shrink(struct check *check, struct check_context *context, uint64_t bytes) {
    lock_check_none();
    for (bool more = true; more;) {
        struct check_launch *launch = gpu_take_launch(check, context);
        if (!launch)
            return;
        check_lock(check);
        evict_oldest(check, context, launch, bytes);
        more = context->quarantined > bytes;
        check_unlock(check);
        gpu_submit(check, context, launch);
    }
}
