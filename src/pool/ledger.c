/* Blocks change their states, and the sums with them. */
#include "pool/ledger_parts.h"

void ledger_note_size(const struct context *context, const struct site *site, size_t bytes) {
    lock_check_held(LOCK_POOL);
    uint64_t least = stats_site_least(site->stats);
    if (__builtin_expect(!least || bytes < least, 0))
        stats_site_serves(site->stats, context->kind.memory == POOL_DEVICE
                                           ? round_physical(bytes)
                                           : context->keeper->round(bytes));
}

struct pool_block *ledger_find(const struct pool *pool, CUdeviceptr pointer) {
    lock_check_held(LOCK_POOL);
    return pointer_map_find(&pool->map, pointer);
}

bool is_suballocation(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return block->context->keeper->cuts || block->in_driver_pool;
}

void ledger_restore(struct pool *pool, struct pool_block *block, enum block_state state) {
    lock_check_held(LOCK_POOL);
    if (block->context->ended) {
        stranded_keep(pool, block);
        return;
    }
    if (!ledger_insert(pool, block)) {
        ledger_recycle(pool, block);
        return;
    }
    ledger_set_state(block, state);
    ledger_count_block(block, 1);
    if (state == BLOCK_LIVE) {
        ledger_count_live(block, 1);
    } else {
        block->requested = 0;
        if (state == BLOCK_IDLE)
            ledger_keep(pool, block);
        else
            fence_defer(pool, block, NULL);
    }
    ledger_publish(pool, block->context->device);
}

struct pool_block *ledger_add(struct pool *pool, struct context *context, struct site *site,
                              CUdeviceptr pointer, size_t size, size_t requested) {
    lock_check_held(LOCK_POOL);
    struct pool_block *stale = PLANTED(record_removed_late) ? ledger_find(pool, pointer) : NULL;
    if (stale)
        return stale;
    struct pool_block *block = ledger_add_record(pool, &(struct pool_block){.pointer = pointer,
                                                                            .size = size,
                                                                            .asked = requested,
                                                                            .requested = requested,
                                                                            .context = context,
                                                                            .site = site,
                                                                            .state = BLOCK_LIVE});
    if (block) {
        ledger_set_state(block, BLOCK_LIVE);
        ledger_count_block(block, 1);
        ledger_count_live(block, 1);
        ledger_publish(pool, block->context->device);
    }
    return block;
}

void ledger_make_deferred(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_count_live(block, (uint64_t)-1);
    block->requested = 0;
    ledger_set_state(block, BLOCK_DEFERRED);
    ledger_publish(pool, block->context->device);
}

void ledger_end_deferral(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (block->context->keeper->cuts) {
        ledger_keep_suballocation(pool, block);
        return;
    }
    block->state = BLOCK_IDLE;
    if (!cache_put(pool, block))
        block->context->keeper->give(&block->context->store, block);
}

void ledger_make_idle(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_make_deferred(pool, block);
    ledger_end_deferral(pool, block);
}

void ledger_make_live(struct pool *pool, struct pool_block *block, struct site *site,
                      size_t requested) {
    lock_check_held(LOCK_POOL);
    ledger_count_of_site(block->site, (uint64_t)-1, 0 - (uint64_t)block->size);
    ledger_count_of_site(site, 1, block->size);
    block->site = site;
    block->requested = requested;
    ledger_set_state(block, BLOCK_LIVE);
    ledger_count_live(block, 1);
    ledger_publish(pool, block->context->device);
}
