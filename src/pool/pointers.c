/* Pointers of the program's, outside malloc and free: what it may know of them, and what calls of
 * its own have done with their memory. */
#include "pool/suballocation.h"

enum pool_pointer_state pool_pointer_state(struct pool *pool, CUdeviceptr base,
                                           size_t *requested_bytes) {
    enum pool_pointer_state state = POOL_POINTER_UNKNOWN;
    pool_lock(pool);
    const struct pool_block *block = ledger_find(pool, base);
    const struct pool_block *ending = block ? NULL : stranded_around(pool, base);
    if (block && block->state == BLOCK_LIVE) {
        *requested_bytes = block->requested;
        state = POOL_POINTER_LIVE;
    } else if (ending && ending->pointer == base) {
        *requested_bytes = ending->requested;
        state = POOL_POINTER_LIVE;
    } else if (block || stranded_has(pool, base)) {
        state = POOL_POINTER_IDLE;
    }
    pool_unlock(pool);
    return state;
}

/* As the index would, which there is no host memory for. */
static struct pool_block *search(const struct pool *pool, CUdeviceptr pointer) {
    struct pool_block *block;
    struct ledger_place place = {0};
    while ((block = ledger_next(pool, &place)))
        if (pointer >= block->pointer && pointer - block->pointer < block->size)
            break;
    return block;
}

/* The block that the address lies in, whatever its state. Lock held. */
static struct pool_block *find_around(struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = ledger_find(pool, pointer);
    if (!block && pool->keeper->cuts)
        block = suballocation_find(pool, pointer);
    if (block)
        return block;
    return ledger_index(pool) ? address_index_find(pool, pointer) : search(pool, pointer);
}

struct pool_place pool_find_place(struct pool *pool, CUdeviceptr pointer) {
    struct pool_place place = {.state = POOL_POINTER_UNKNOWN};
    pool_lock(pool);
    const struct pool_block *block = find_around(pool, pointer);
    const struct pool_block *ending = block ? NULL : stranded_around(pool, pointer);
    if (ending) {
        place.base = ending->pointer;
        place.requested = ending->requested;
        place.state = POOL_POINTER_LIVE;
        place.part = !ending->in_driver_pool;
        place.context = ending->context->handle;
    } else if (block) {
        bool live = block->state == BLOCK_LIVE;
        place.base = block->pointer;
        place.requested = live ? block->requested : 0;
        place.state =
            pointer - place.base < place.requested ? POOL_POINTER_LIVE : POOL_POINTER_IDLE;
        place.part = live && suballocation_is_part(block);
        place.context = block->context->handle;
        place.alone = !place.part && !block->in_driver_pool;
    }
    pool_unlock(pool);
    return place;
}

void pool_taint(struct pool *pool, CUdeviceptr pointer, enum pool_taint reason) {
    pool_lock(pool);
    struct pool_block *block = find_around(pool, pointer);
    if (block && block->state == BLOCK_LIVE) {
        if (!block->taints)
            stats_add(STATS_tainted_blocks, 1);
        if (!(block->taints & 1u << reason))
            stats_add(STATS_tainted_ipc + reason, 1); /* the counters stand in the enum's order */
        block->taints |= (uint8_t)(1u << reason);
        block->quick_freeable = 0;
    }
    pool_unlock(pool);
}

struct pool_block *pool_disown(struct pool *pool, CUdeviceptr pointer) {
    if (pool_permits_no_free(pool))
        return NULL;
    pool_lock(pool);
    struct pool_block *block = ledger_find(pool, pointer);
    if (block && block->state == BLOCK_LIVE)
        ledger_remove(pool, block);
    else
        block = NULL;
    pool_unlock(pool);
    return block;
}

void pool_readopt(struct pool *pool, struct pool_block *block) {
    pool_lock(pool);
    ledger_restore(pool, block, BLOCK_LIVE);
    pool_unlock(pool);
}

void pool_disown_done(struct pool *pool, struct pool_block *block) {
    pool_lock(pool);
    if (block->in_driver_pool)
        source_driver_pool_gave_back(pool, block->context, block->size);
    ledger_recycle(pool, block);
    pool_unlock(pool);
}
