/* Managed memory, of which the program says things to the driver: advice, prefetches, streams that
 * it is attached to. A block's next owner must find nothing of that.
 *
 * Advice and attachment are undone after the wait of the block's free, when no work uses it. Where
 * that cannot be done the block is really freed. Where its pages were last prefetched to can be
 * asked for and not undone, so the answer is corrected (pool_managed_prefetch_is_old). */
#include "pool/internal.h"

/* TO_UNDO is undone by a call; the rest are facts to be remembered. */
enum {
    TO_UNDO = POOL_MANAGED_READ_MOSTLY | POOL_MANAGED_PREFERRED | POOL_MANAGED_ACCESSED |
              POOL_MANAGED_ATTACHED,
    FORMER_PREFETCH = 1 << 7
}; /* some page was prefetched for a former owner, and not since */

static struct pool_block *find(const struct pool *pool, CUdeviceptr base) {
    struct pool_block *block = ledger_find(pool, base);
    return block && block->context->kind.memory == POOL_MANAGED ? block : NULL;
}

void pool_managed_note(struct pool *pool, CUdeviceptr base, enum pool_managed_mark mark,
                       size_t offset, size_t bytes) {
    pool_lock(pool);
    struct pool_block *block = find(pool, base);
    if (block && block->state == BLOCK_LIVE) {
        block->marks |= (uint8_t)mark;
        if (mark == POOL_MANAGED_PREFETCHED && !offset && bytes >= block->requested)
            block->marks &= (uint8_t)~FORMER_PREFETCH;
    }
    pool_unlock(pool);
}

bool pool_managed_prefetch_is_old(struct pool *pool, CUdeviceptr base) {
    pool_lock(pool);
    const struct pool_block *block = find(pool, base);
    bool old = block && (block->marks & FORMER_PREFETCH) &&
               !(block->marks & POOL_MANAGED_PREFETCHED) && !PLANTED(former_prefetch_told);
    pool_unlock(pool);
    return old;
}

bool managed_is_marked(const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    return block->context->kind.memory == POOL_MANAGED && (block->marks & TO_UNDO);
}

void managed_begin_life(struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    bool prefetched = block->marks & (POOL_MANAGED_PREFETCHED | FORMER_PREFETCH);
    block->marks = prefetched ? FORMER_PREFETCH : 0;
}

/* Uses cuMemAdvise's form of CUDA 8, which every driver has: it takes all that is to be undone. */
static bool unset(const struct pool *pool, const struct pool_block *block, CUmem_advise advice,
                  CUdevice device) {
    return pool->driver->mem_advise &&
           pool->driver->mem_advise(block->pointer, block->size, advice, device) == CUDA_SUCCESS;
}

/* A device without concurrent access cannot have been named in advice [cuda.h]. */
static bool may_be_named(const struct pool *pool, CUdevice device) {
    int concurrent = 1; /* where this cannot be asked, the driver's answer to the undoing decides */
    pool->driver->device_get_attribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                                       device);
    return concurrent;
}

static bool unset_accessors(const struct pool *pool, const struct pool_block *block) {
    int count = 0;
    if (!pool->driver->device_get_count || pool->driver->device_get_count(&count) != CUDA_SUCCESS)
        return false;
    bool done = unset(pool, block, CU_MEM_ADVISE_UNSET_ACCESSED_BY, CU_DEVICE_CPU);
    for (CUdevice device = 0; device < count && done; device++)
        if (may_be_named(pool, device))
            done = unset(pool, block, CU_MEM_ADVISE_UNSET_ACCESSED_BY, device);
    return done;
}

/* Detaches in the legacy stream and waits for it: the next owner may use any stream. */
static bool detach(const struct pool *pool, const struct pool_block *block) {
    return pool->driver->stream_attach_mem &&
           pool->driver->stream_attach_mem(CU_STREAM_LEGACY, block->pointer, 0,
                                           block->context->kind.flags) == CUDA_SUCCESS &&
           pool->driver->ctx_synchronize() == CUDA_SUCCESS;
}

static bool undo(const struct pool *pool, const struct pool_block *block) {
    const uint8_t marks = block->marks;
    return (!(marks & POOL_MANAGED_READ_MOSTLY) ||
            unset(pool, block, CU_MEM_ADVISE_UNSET_READ_MOSTLY, CU_DEVICE_CPU)) &&
           (!(marks & POOL_MANAGED_PREFERRED) ||
            unset(pool, block, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, CU_DEVICE_CPU)) &&
           (!(marks & POOL_MANAGED_ACCESSED) || unset_accessors(pool, block)) &&
           (!(marks & POOL_MANAGED_ATTACHED) || detach(pool, block));
}

bool managed_reset(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    struct context_push visit;
    bool done = false;
    if (block->state == BLOCK_GONE)
        return false;
    if (!managed_is_marked(block) || PLANTED(managed_state_kept))
        return true;
    pool_unlock_between(pool);
    if (pool_gate_enter(pool)) {
        if (context_push(pool, block->context->handle, &visit)) {
            done = undo(pool, block);
            context_pop(pool, &visit);
        }
        pool_gate_leave(pool);
    }
    pool_lock(pool);
    if (done) {
        block->marks &= (uint8_t)~TO_UNDO;
        stats_add(STATS_managed_resets, 1);
    }
    return done;
}
