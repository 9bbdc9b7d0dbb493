/* Suballocations: blocks that are no allocations of the driver's, so that the pool answers what
 * else the driver would, and cannot leave their frees to it. The pool frees blocks that lie in a
 * memory pool of the driver's by itself as well: cuMemFree does not wait for those. */
#include "policy/region.h"
#include "pool/internal.h"
#include "pool/waste_bound.h"

struct pool_block *suballocation_find(struct pool *pool, CUdeviceptr address) {
    lock_check_held(LOCK_POOL);
    struct context *context;
    struct pool_block *block = NULL;
    LIST_FOREACH (context, &pool->contexts, link)
        if (context->policy->cuts && (block = region_find(&context->store, address)))
            break;
    return block;
}

/* Whether the driver knows the block as an allocation of its own. */
static bool is_allocation(const struct pool_block *block) {
    return !block->in_driver_pool && region_is_whole(block) && !block->region->reservation;
}

bool suballocation_is_part(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return block->context->policy->cuts && !is_allocation(block);
}

bool pool_is_suballocation(struct pool *pool, CUdeviceptr pointer) {
    if (!pool->policy->cuts)
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
    if (!region_add(&context->store, block)) {
        ledger_remove(pool, block);
        ledger_recycle(pool, block);
        stats_add(STATS_no_memory_for_records, 1);
        return NULL;
    }
    block->region->reservation = obtained->reservation;
    struct fit fit = waste_bound_fit(pool, context, request->bytes, wanted < size ? wanted : size);
    if (obtained->reservation)
        fit.surplus = 0;
    region_cut(&context->store, block, &fit);
    ledger_make_live(pool, block, request->site, request->bytes ? request->bytes : size);
    return block;
}

void suballocation_lost(struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    region_lose(&block->context->store, block);
}

void suballocation_released(struct pool_block *block, bool refused) {
    lock_check_held(LOCK_POOL);
    if (refused && !block->context->ended)
        region_return(&block->context->store, block);
    else
        region_destroy(block);
}

/* Releases a region: the driver knows only all of it. Lock held on entry, not on return. */
static CUresult release_region(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    ledger_remove(pool, block);
    region_detach(&block->context->store, block);
    return pool_release_removed(pool, block);
}

/* Frees another allocation for the driver's answer, and its wait, where the pool cannot wait by
 * itself (in the midst of a capture, with very many contexts). */
static CUresult free_a_probe(struct pool *pool, struct context *context) {
    struct context_push visit;
    CUdeviceptr another;
    if (!context_push(pool, context->handle, &visit))
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = pool->driver->mem_alloc(&another, 1);
    for (unsigned attempt = 0; pool_refused(result) &&
                               pool_make_room(pool, "cuMemFree", attempt, POOL_ASKS_DEVICE_MEMORY);
         attempt++)
        result = pool->driver->mem_alloc(&another, 1);
    if (result == CUDA_SUCCESS)
        result = pool->driver->mem_free(another);
    context_pop(pool, &visit);
    return result;
}

/* Lock held on entry, not on return. */
static CUresult free_as_driver(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct context *context = block->context;
    ledger_set_state(block, BLOCK_WAITING);
    pool_unlock(pool);
    CUresult result = free_a_probe(pool, context);
    pool_lock(pool);
    if (block->state == BLOCK_GONE) {
        ledger_recycle(pool, block);
        pool_unlock(pool);
        return result;
    }
    ledger_set_state(block, BLOCK_LIVE);
    if (pool_refused(result)) { /* no free of the driver's answers this */
        pool_keep_deferred(pool, block);
        return CUDA_SUCCESS;
    }
    if (result == CUDA_SUCCESS)
        pool_keep(pool, block);
    else
        pool_unlock(pool);
    return result;
}

bool suballocation_passes(struct pool *pool, const struct pool_block *block, CUcontext current) {
    lock_check_held(LOCK_POOL);
    return !current || block->context->broken || atomic_load(&pool->down);
}

CUresult suballocation_free_past_pool(struct pool *pool, struct pool_block *block,
                                      CUcontext current) {
    lock_check_held(LOCK_POOL);
    CUdeviceptr pointer = block->pointer;
    if (is_allocation(block))
        return release_region(pool, block);
    if (current && !block->context->broken && !atomic_load(&pool->down))
        return free_as_driver(pool, block);
    /* The driver is to refuse it, with the error that belongs here: none of its allocations begins
     * there. */
    pointer += block->in_driver_pool;
    pool_unlock(pool);
    return pool->driver->mem_free(pointer);
}

CUresult pool_free_suballocation(struct pool *pool, CUdeviceptr pointer) {
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    release_exchange_capture_mode(pool, &mode);
    CUresult result = pool_free(pool, pointer);
    release_exchange_capture_mode(pool, &mode);
    return result;
}

void suballocation_note_taint(struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    if (block->taints)
        region_taint(&block->context->store, block->region);
}
