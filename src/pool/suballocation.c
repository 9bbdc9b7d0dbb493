/* Suballocations: blocks that are no allocations of the driver's, so that the pool answers what
 * else the driver would, and cannot leave their frees to it. The pool frees blocks that lie in a
 * memory pool of the driver's by itself as well: cuMemFree does not wait for those. */
#include "pool/suballocation.h"

#include "keep/region.h"

struct pool_block *suballocation_find(struct pool *pool, CUdeviceptr address) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    struct pool_block *block = NULL;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->keeper->cuts && (block = region_find(&context->store, address)))
            break;
    return block;
}

bool suballocation_is_allocation(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return !block->in_driver_pool && region_is_whole(block) && !block->region->reservation;
}

bool suballocation_is_part(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return block->context->keeper->cuts && !suballocation_is_allocation(block);
}

bool pool_is_suballocation(struct pool *pool, CUdeviceptr pointer) {
    if (!pool->keeper->cuts)
        return false;
    pool_lock(pool);
    const struct pool_block *block = suballocation_find(pool, pointer);
    bool begins = block && block->pointer == pointer;
    pool_unlock(pool);
    return begins;
}

unsigned long long pool_suballocation_identity(struct pool *pool, CUdeviceptr base) {
    static const uint64_t ours = (uint64_t)1 << 63; /* the driver's are small numbers */
    pool_lock(pool);
    struct pool_block *block = suballocation_find(pool, base);
    if (block && !block->identity)
        block->identity = ours + ++pool->identities;
    uint64_t identity = block ? block->identity : 0;
    pool_unlock(pool);
    return identity;
}

void suballocation_cut(struct pool *pool, struct pool_block *block, size_t bytes) {
    lock_check_held(LOCK_POOL);
    struct pool_block *rest = bytes ? ledger_split(pool, block, block->size - bytes) : NULL;
    if (rest)
        region_cut(&block->context->store, block, rest);
}

bool suballocation_cut_at(struct pool *pool, struct pool_block *block, uint64_t address) {
    lock_check_held(LOCK_POOL);
    struct idle_store *store = &block->context->store;
    ledger_take_out(pool, block);
    struct pool_block *rest = ledger_split(pool, block, address - block->pointer);
    if (rest)
        region_cut(store, block, rest);
    block->context->keeper->give(store, block);
    return rest;
}

/* Makes the part of an idle block that is kept a region of its own, kept nowhere. NULL without host
 * memory: then all of the block stays. Lock held. */
static struct pool_block *narrow(struct pool *pool, struct pool_block *block,
                                 const struct whole *part) {
    lock_check_held(LOCK_POOL);
    struct idle_store *store = &block->context->store;
    uint64_t end = part->from + part->bytes;
    if (part->from != block->pointer) {
        if (!suballocation_cut_at(pool, block, part->from))
            return NULL;
        block = region_next(block);
    }
    if (end != block->pointer + block->size && !suballocation_cut_at(pool, block, end)) {
        ledger_take_out(pool, block);
        ledger_keep(pool, block); /* merges it with the first part */
        return NULL;
    }
    ledger_take_out(pool, block);
    if (region_isolate(store, block))
        return block;
    ledger_keep(pool, block);
    return NULL;
}

/* The part of an idle block that goes where `most` bytes are asked for. */
static struct whole part_of(const struct pool_block *block, size_t most) {
    struct reservation *reservation = block->region->reservation;
    if (!reservation)
        return (struct whole){block->pointer, block->size};
    const struct whole all = reservation_whole(reservation, block->pointer, block->size);
    return reservation_last(reservation, &all, most);
}

size_t suballocation_part_bytes(const struct pool_block *block, size_t most) {
    lock_check_held(LOCK_POOL);
    return part_of(block, most).bytes;
}

struct pool_block *suballocation_take_out(struct pool *pool, struct pool_block *block,
                                          size_t most) {
    lock_check_held(LOCK_POOL);
    const struct whole part = part_of(block, most);
    if (block->region->reservation)
        return narrow(pool, block, &part);
    ledger_take_out(pool, block);
    return block;
}

struct pool_block *suballocation_without_live(struct pool *pool, struct context *context) {
    lock_check_held(LOCK_POOL);
    struct region *region = region_without_live(&context->store);
    struct pool_block *first = region ? region_first(region) : NULL, *block, *next;
    for (block = first; block; block = region_next(block)) {
        ledger_take_out(pool, block);
        block->state = BLOCK_IDLE;
    }
    while (first && (next = region_next(first))) {
        region_leave(next);
        ledger_coalesce(pool, first, next);
    }
    return first;
}

struct pool_block *suballocation_adopt(struct pool *pool, const struct request *request,
                                       const struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    struct context *context = request->context;
    size_t size = obtained->size;
    size_t wanted = request->size ? request->size : size;
    if (obtained->block) {
        ledger_set_state(obtained->block, BLOCK_LIVE);
        return obtained->block;
    }
    struct pool_block *block =
        ledger_add_region(pool, context, request->site, obtained->pointer, size);
    if (!block)
        return NULL;
    struct region *stale;
    while ((stale = region_overlapping(&context->store, block->pointer, block->size)))
        ledger_forget_region(pool, &context->store, stale);
    if (!region_add(&context->store, block, wanted)) {
        ledger_remove(pool, block);
        ledger_recycle(pool, block);
        stats_add(STATS_no_memory_for_records, 1);
        return NULL;
    }
    struct fit fit = waste_bound_fit(&pool->config, context->device, request->bytes,
                                     wanted < size ? wanted : size);
    suballocation_cut(pool, block, context->keeper->rest(block, &fit));
    ledger_make_live(pool, block, request->site, request->bytes ? request->bytes : size);
    return block;
}

void suballocation_released(struct pool_block *block, bool refused) {
    lock_check_held(LOCK_POOL);
    if (refused && !block->context->ended)
        region_return(&block->context->store, block);
    else
        region_destroy(block);
}
