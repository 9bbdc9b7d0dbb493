/* Waiting until nothing is deferred any more: for fences, and where none can be recorded for all
 * work. */
#include "pool/fence_parts.h"

/* Where no fence can be recorded: waits for all work. Lock held on entry and return, not in
 * between; then blocks of a context that ends leave the list. */
static bool wait_instead(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct block_list waiting = {NULL};
    struct pool_block *block;
    fence_move_blocks(&context->unfenced, &waiting);
    pool_unlock_between(pool);
    bool waited = context_wait(pool, context) == CUDA_SUCCESS;
    pool_lock(pool);
    if (!waited)
        fence_move_blocks(&waiting, &context->unfenced);
    while ((block = LIST_FIRST(&waiting))) {
        LIST_REMOVE(block, in_list);
        ledger_end_deferral(pool, block);
    }
    return waited;
}

void fence_drain(struct pool *pool, const struct device *device) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    struct fence *fence;
    while ((context = fence_deferring(pool, device))) {
        bool fenced = fence_unfenced(pool, context);
        if (context->ended)
            return;
        fence = fence_oldest(context);
        if (fenced && fence && fence_passes(pool, context, fence, true))
            continue;
        if (fenced && !fence) { /* another thread is just recording it */
            pool_unlock_between(pool);
            futex_pause();
            pool_lock(pool);
        } else if (context->ended || LIST_EMPTY(&context->unfenced) ||
                   !wait_instead(pool, context)) {
            return;
        }
    }
}
