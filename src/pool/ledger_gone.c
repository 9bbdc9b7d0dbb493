/* Blocks that go: out of where they are kept, out of the table and of all sums. */
#include "keep/region.h"
#include "pool/ledger_parts.h"

void ledger_recycle(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    block->state = BLOCK_GONE;
    block->next = pool->spare;
    pool->spare = block;
    pool->recycled++;
}

/* Else the first thread that takes some after contexts have ended would take them all, and each
 * other have a slab made. */
struct pool_block *ledger_part_spares(struct pool *pool) {
    lock_check_held(LOCK_POOL);
    struct pool_block *last = pool->spare, *behind;
    for (int i = 1; i < SLAB_LEAST && last->next; i++)
        last = last->next;
    behind = last->next;
    last->next = NULL;
    pool->recycled -= SLAB_LEAST;
    return behind;
}

/* Takes the block out of the sums, as it goes out of the map. Nothing is more than it was then, so
 * that there is no new peak. */
static void subtract(struct pool_block *block) {
    struct device *device = block->context->device;
    if (block->state != BLOCK_IDLE && block->state != BLOCK_DEFERRED)
        ledger_count_live(block, (uint64_t)-1);
    ledger_count_block(block, (uint64_t)-1);
    block->state = BLOCK_GONE;
    block->quick_freeable = false;
    decay_note_idle(device, (int64_t)device_idle(device));
    if (!device->stats)
        ledger_publish_kind(device);
}

void ledger_remove_unnoted(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    pointer_map_remove(&pool->map, block);
    if (__builtin_expect(pool->indexed, 0))
        address_index_remove(pool, block);
    subtract(block);
}

void ledger_remove(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_remove_unnoted(pool, block);
    history_note(block->context->device);
}

void ledger_forget_region(struct pool *pool, struct idle_store *store, struct region *region) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block;
    while ((block = region_first(region))) {
        bool waited_for = block->state == BLOCK_WAITING;
        if (block->state == BLOCK_IDLE || block->state == BLOCK_DEFERRED)
            ledger_take_out(pool, block);
        region_leave(block);
        ledger_remove(pool, block);
        if (!waited_for)
            ledger_recycle(pool, block);
    }
    region_forget(store, region);
}

void ledger_forget_stale(struct pool *pool, struct pool_block *stale) {
    lock_check_held(LOCK_POOL);
    bool waited_for = stale->state == BLOCK_WAITING;
    if (pool->indexed)
        address_index_remove(pool, stale);
    if (stale->state == BLOCK_IDLE || stale->state == BLOCK_DEFERRED)
        ledger_take_out(pool, stale);
    if (stale->context->keeper->cuts) {
        struct region *region = stale->region;
        region_leave(stale);
        ledger_forget_region(pool, &stale->context->store, region);
    }
    subtract(stale);
    history_note(stale->context->device);
    if (!waited_for) /* else the thread that waits still holds it */
        ledger_recycle(pool, stale);
}

void ledger_take_out(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (block->cached)
        cache_drain(pool, block->context);
    if (block->state == BLOCK_DEFERRED)
        LIST_REMOVE(block, in_list);
    else
        block->context->keeper->remove(&block->context->store, block);
}
