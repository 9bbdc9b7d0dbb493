/* Frees. What becomes of a live block that the program frees:
 *
 *  1. The thread's cache keeps it, without the pool's lock, while the wait of the free is owed
 *     already or left to a fence (quick.c).
 *  2. It is released at once (free_must_release): it is tainted, a stream is captured, its context
 *     had a sticky error, its device is under pressure, or the driver has shut down.
 *  3. Else wait_choice says what becomes of the native free's wait for the device's work: WAIT_NOW
 *     makes it here; WAIT_OWED leaves it to the next call that could show the difference (wait.c),
 *     and the block is idle at once; WAIT_DEFERRED lets a fence stand for it (fence.c).
 *  4. What is too much then, by the keeper, the bounds or decay, is given up (free_keep).
 *
 * A pointer without a record is the driver's to free. A second free is answered INVALID_VALUE. */
#include "pool/free_parts.h"

/* Whether the call that frees `memory` takes the block: cuMemFree takes managed memory, too. */
static bool is_freed_as(const struct pool_block *block, enum pool_memory memory) {
    return (block->context->kind.memory == POOL_HOST) == (memory == POOL_HOST);
}

bool free_is_not_permitted(struct pool *pool, enum pool_memory memory, CUcontext current) {
    return !current && !PLANTED(free_in_host_function) &&
           source_release(pool, memory, POOL_NOWHERE) == CUDA_ERROR_NOT_PERMITTED;
}

/* A live block that the program frees. Lock held on entry, not on return. */
static CUresult free_live(struct pool *pool, struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    enum pool_memory memory = block->context->kind.memory;
    if (memory == POOL_MANAGED)
        stats_add(STATS_managed_frees, 1);
    free_count(pool, block);
    if (free_must_release(pool, block, current)) {
        if (atomic_load(&pool->captures))
            stats_add(STATS_capture_passed, 1);
        return free_past_pool(pool, block, current);
    }
    enum wait_reason reason;
    enum wait_choice kind = wait_choice(pool, block, &reason);
    if ((memory == POOL_HOST && PLANTED(host_memory_not_waited_for)) ||
        (memory == POOL_MANAGED && PLANTED(managed_not_waited_for)))
        kind = WAIT_OWED;
    if (kind == WAIT_NOW) {
        ledger_set_state(block, BLOCK_WAITING);
        return free_end_wait(pool, block, wait_make(pool, block->context, reason));
    }
    if (kind == WAIT_OWED)
        wait_owe(pool, block->context);
    free_keep(pool, block, kind);
    pool_unlock(pool);
    return CUDA_SUCCESS;
}

/* Frees in the current context, an owner if that is a green one's. Without a current context, or in
 * one that is gone, what becomes of it is the driver's. */
static CUresult free_in_owner(struct pool *pool, enum pool_memory memory, CUdeviceptr pointer) {
    CUcontext current;
    context_current(pool, &current);
    if (free_is_not_permitted(pool, memory, current))
        return CUDA_ERROR_NOT_PERMITTED;
    stats_add(STATS_free_calls, 1);
    if (pool->config.look_around)
        pool->config.look_around(pool);
    pool_lock(pool);
    struct pool_block *block = ledger_find(pool, pointer);
    bool ours = block && is_freed_as(block, memory);
    if (ours && block->state == BLOCK_LIVE)
        return free_live(pool, block, current);
    return free_no_live_block(pool, memory, pointer, ours ? block : NULL);
}

CUresult free_kind(struct pool *pool, enum pool_memory memory, CUdeviceptr pointer) {
    if (!pointer)
        return source_release(pool, memory, pointer);
    bool pushed = context_has_green(pool) && context_push_owner(pool);
    CUresult result = free_in_owner(pool, memory, pointer);
    if (pushed)
        pool_pop_device(pool, true);
    return result;
}
