/* Frees of addresses where the program has no live block: second ones, and of what the pool does
 * not know. */
#include "pool/free_parts.h"

/* Whether the address is still that of the block, whose context had this id: during a release it
 * may be one of the next primary context's, under the same handle. Waits for the release where the
 * driver cannot tell. Lock not held. */
static bool is_freed_again(struct pool *pool, CUdeviceptr pointer, CUcontext owner,
                           unsigned long long id) {
    lock_check_none();
    CUcontext now = NULL;
    unsigned long long its;
    if (!id || !pool->driver->pointer_get_attribute)
        return order_await_decision(&pool->order, owner);
    return pool->driver->pointer_get_attribute(&now, CU_POINTER_ATTRIBUTE_CONTEXT, pointer) ==
               CUDA_SUCCESS &&
           now && context_ask_id(pool, now, &its) == CUDA_SUCCESS && its == id;
}

CUresult free_no_live_block(struct pool *pool, enum pool_memory memory, CUdeviceptr pointer,
                            const struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    const struct context *context = block ? block->context : NULL;
    bool releases = context && context->releases;
    CUcontext owner = context ? context->handle : NULL;
    unsigned long long id = context ? context->id : 0;
    bool again = context && !releases;
    bool may_be_stranded = memory != POOL_HOST; /* none is host memory */
    CUdeviceptr asked = again             ? POOL_NOWHERE
                        : may_be_stranded ? stranded_as_freed(pool, pointer)
                                          : pointer;
    pool_unlock(pool);
    if (releases && is_freed_again(pool, pointer, owner, id))
        asked = POOL_NOWHERE;
    stats_add(asked == POOL_NOWHERE ? STATS_free_double : STATS_free_unknown, 1);
    return source_release(pool, memory, asked);
}
