/* Regions that policies cut: their parts are split off, kept, and merged again. */
#include "keep/region.h"
#include "pool/ledger_parts.h"

struct pool_block *ledger_add_region(struct pool *pool, struct context *context, struct site *site,
                                     CUdeviceptr pointer, size_t size) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = ledger_add_record(pool, &(struct pool_block){.pointer = pointer,
                                                                            .size = size,
                                                                            .context = context,
                                                                            .site = site,
                                                                            .state = BLOCK_IDLE});
    if (block) {
        ledger_count_block(block, 1);
        ledger_publish(pool, block->context->device);
    }
    return block;
}

struct pool_block *ledger_split(struct pool *pool, struct pool_block *block, size_t size) {
    lock_check_held(LOCK_POOL);
    struct pool_block *rest =
        ledger_add_record(pool, &(struct pool_block){.pointer = block->pointer + size,
                                                     .size = block->size - size,
                                                     .context = block->context,
                                                     .site = block->site,
                                                     .state = BLOCK_IDLE});
    if (!rest)
        return NULL;
    block->size = size;
    ledger_count_held(block->context->device, 1, 0);
    ledger_count_of_site(block->site, 1, 0);
    ledger_publish(pool, block->context->device);
    return rest;
}

void ledger_coalesce(struct pool *pool, struct pool_block *block, struct pool_block *next) {
    lock_check_held(LOCK_POOL);
    pointer_map_remove(&pool->map, next);
    block->size += next->size;
    ledger_count_held(block->context->device, (uint64_t)-1, 0);
    ledger_count_of_site(next->site, (uint64_t)-1, 0 - (uint64_t)next->size);
    ledger_count_of_site(block->site, 0, next->size);
    ledger_recycle(pool, next);
    ledger_publish(pool, block->context->device);
}

void ledger_count_unused(struct pool *pool, struct context *context, size_t change) {
    lock_check_held(LOCK_POOL);
    struct device *device = context->device;
    context->store.unused += change;
    ledger_count_held(device, 0, change);
    ledger_publish(pool, device);
}

/* Lock held. */
static void keep_part(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct idle_store *store = &block->context->store;
    struct pool_block *part;
    while ((part = region_join(store, &block)))
        ledger_coalesce(pool, block, part);
    block->context->keeper->give(store, block);
}

void ledger_keep(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct pool_block *rest;
    if (!block->context->keeper->cuts) {
        block->context->keeper->give(&block->context->store, block);
        return;
    }
    for (; block; block = rest) {
        size_t same = region_set_bar(block);
        rest = same < block->size ? ledger_split(pool, block, same) : NULL;
        if (rest)
            region_part(block, rest);
        keep_part(pool, block);
    }
}

void ledger_keep_suballocation(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    block->taints = 0; /* what it left behind is tainted or barred */
    block->state = BLOCK_IDLE;
    ledger_keep(pool, block);
}
