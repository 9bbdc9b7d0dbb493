/* Suballocations: blocks that are no allocations of the driver's, so that the pool answers what
 * else the driver would, and cannot leave their frees to it. The pool frees blocks that lie in a
 * memory pool of the driver's by itself as well: cuMemFree does not wait for those. */
#include "keep/region.h"
#include "pool/bounds.h"
#include "pool/internal.h"

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
    block->region->reservation = obtained->reservation;
    struct fit fit = waste_bound_fit(pool, context, request->bytes, wanted < size ? wanted : size);
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

void suballocation_note_taint(struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (block->taints)
        region_taint(&block->context->store, block->region);
}
