/* Frees that are not the pool's own: the block goes to the driver, or, where that knows no such
 * allocation, the driver is asked what it would have answered. */
#include "keep/region.h"
#include "pool/free_parts.h"
#include "pool/suballocation.h"
#include "pool/uncancelled.h"

/* A planted fault: another thread may have been given the address meanwhile. Lock held on entry and
 * return, not in between. */
static CUresult free_with_late_removal(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    CUdeviceptr pointer = block->pointer;
    pool_unlock(pool);
    CUresult result = pool->driver->mem_free(pointer);
    futex_pause();
    pool_lock(pool);
    block = ledger_find(pool, pointer);
    if (block && result == CUDA_SUCCESS) {
        ledger_remove(pool, block);
        ledger_recycle(pool, block);
    }
    return result;
}

/* Gives a live block whose record is out of the ledger to the driver. The record comes back if that
 * refuses. Lock held on entry and return, not in between. */
static CUresult release_removed(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct context *context = block->context;
    context->device->releasing++;
    context->users++;
    pool_unlock_between(pool);
    int cancelling = uncancelled_begins(pool);
    CUresult result = source_release(pool, context->kind.memory, block->pointer);
    pool_note_error(pool, result);
    pool_lock(pool);
    if (context->keeper->cuts)
        suballocation_released(block, result != CUDA_SUCCESS);
    if (result == CUDA_SUCCESS) {
        ledger_recycle(pool, block);
        stats_add(STATS_driver_frees, 1);
    } else {
        ledger_restore(pool, block, BLOCK_LIVE);
    }
    pool_count_released(pool, context->device, 1);
    context_user_leaves(pool, context);
    uncancelled_ends(pool, cancelling);
    return result;
}

/* Frees a block for good. Lock held on entry and return, not in between. */
static CUresult release_block(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (PLANTED(record_removed_late))
        return free_with_late_removal(pool, block);
    ledger_remove(pool, block);
    return release_removed(pool, block);
}

/* Releases a region: the driver knows only all of it. Lock held on entry and return, not in
 * between. */
static CUresult release_region(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_remove(pool, block);
    region_detach(&block->context->store, block);
    return release_removed(pool, block);
}

/* Frees another allocation for the driver's answer, and its wait, where the pool cannot wait by
 * itself (in the midst of a capture, with very many contexts). INVALID_VALUE: the context has come
 * to its end, and the thread's own has no error. */
static CUresult free_a_probe(struct pool *pool, struct context *context) {
    struct context_push visit;
    CUdeviceptr another;
    for (int ends = 0; !context_push(pool, context->handle, &visit); ends++)
        if (ends == ORDER_MOST_ENDS || !order_await_decision(&pool->order, context->handle))
            return pool->driver->mem_free(POOL_NOWHERE);
    CUresult result = pool->driver->mem_alloc(&another, 1);
    for (unsigned attempt = 0; driver_refused(result) &&
                               pool_make_room(pool, "cuMemFree", attempt, POOL_ASKS_DEVICE_MEMORY);
         attempt++)
        result = pool->driver->mem_alloc(&another, 1);
    if (result == CUDA_SUCCESS)
        result = pool->driver->mem_free(another);
    context_pop(pool, &visit);
    return result;
}

/* Lock held on entry and return, not in between. */
static enum past free_as_driver(struct pool *pool, struct pool_block *block, CUresult *result) {
    lock_check_held(LOCK_POOL);
    struct context *context = block->context;
    ledger_set_state(block, BLOCK_WAITING);
    pool_unlock(pool);
    *result = free_a_probe(pool, context);
    bool unanswered = driver_refused(*result) || *result == CUDA_ERROR_INVALID_VALUE;
    if (unanswered) /* no free of the driver's answers this */
        *result = CUDA_SUCCESS;
    pool_lock(pool);
    if (block->state == BLOCK_GONE) {
        ledger_recycle(pool, block);
        return PAST_DONE;
    }
    ledger_set_state(block, BLOCK_LIVE);
    return unanswered ? PAST_DEFERRED : *result == CUDA_SUCCESS ? PAST_KEPT : PAST_DONE;
}

/* The driver is to refuse the free, with the error that belongs here. It is asked for an address
 * inside, where none of its allocations begins, as the first block of a region does. Lock held on
 * entry and return, not in between. */
static CUresult ask_for_refusal(struct pool *pool, const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct context_push visit;
    CUcontext lost = block->context->broken ? block->context->handle : NULL;
    CUdeviceptr inside = block->pointer + 1;
    pool_unlock(pool);
    CUresult result = pool->driver->mem_free(inside);
    if (result == CUDA_ERROR_INVALID_VALUE && lost && context_push(pool, lost, &visit)) {
        result = pool->driver->mem_free(inside);
        context_pop(pool, &visit);
    }
    pool_lock(pool);
    return result;
}

enum past free_past(struct pool *pool, struct pool_block *block, CUcontext current,
                    CUresult *result) {
    lock_check_held(LOCK_POOL);
    if (!is_suballocation(block)) {
        *result = release_block(pool, block);
    } else if (suballocation_is_allocation(block)) {
        *result = release_region(pool, block);
    } else if (!suballocation_passes(pool, block, current)) {
        return free_as_driver(pool, block, result);
    } else {
        *result = ask_for_refusal(pool, block);
    }
    return PAST_DONE;
}

bool free_is_refused(struct pool *pool, struct pool_block *block, CUresult *result) {
    lock_check_held(LOCK_POOL);
    CUdeviceptr pointer = block->pointer;
    enum pool_memory memory = block->context->kind.memory;
    pool_unlock(pool);
    *result = source_release(pool, memory, POOL_NOWHERE);
    pool_lock(pool);
    return *result != CUDA_ERROR_INVALID_VALUE || ledger_find(pool, pointer) != block ||
           block->state != BLOCK_LIVE;
}

CUresult free_end_forgotten(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    CUdeviceptr pointer = block->pointer;
    enum pool_memory memory = block->context->kind.memory;
    bool in_region = !block->context->over && block->context->keeper->cuts;
    bool has_new_owner = ledger_find(pool, pointer) != NULL;
    ledger_recycle(pool, block);
    pool_unlock(pool);
    return has_new_owner || in_region ? CUDA_SUCCESS : source_release(pool, memory, pointer);
}
