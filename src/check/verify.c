/* Verifying all that a context has, with a wait for the results. */
#include "check/internal.h"

/* Puts blocks of the context that are not verified into the launch, from that address on. Returns
 * where to go on, 0: that was all. Lock held. */
static CUdeviceptr add_unverified(struct check *check, struct check_context *context,
                                  struct check_launch *launch, CUdeviceptr from) {
    lock_check_held(LOCK_CHECK);
    struct check_block *block;
    for (; (block = block_from(check, from)); from = block->base + 1) {
        bool kept = block->state == CHECK_LIVE || block->state == CHECK_QUARANTINED;
        if (block->context == context && kept && block_is_unverified(block) &&
            (block->zones == CHECK_ZONED || block->state == CHECK_QUARANTINED) &&
            !tasks_verify(launch, block))
            return block->base;
    }
    return 0;
}

void verify_all(struct check *check, struct check_context *context,
                const struct check_occasion *occasion) {
    lock_check_none();
    CUdeviceptr from = 0;
    do {
        struct check_launch *launch = gpu_take_launch(check, context);
        if (!launch && results_await(check, context))
            launch = gpu_take_launch(check, context);
        if (!launch)
            return;
        check_lock(check);
        launch->occasion = *occasion;
        from = add_unverified(check, context, launch, from);
        check_unlock(check);
        gpu_submit(check, context, launch);
    } while (from);
    results_await(check, context);
}
