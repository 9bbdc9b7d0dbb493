/* Allocations where the pool keeps nothing: there is no current context, or the kind is not pooled.
 */
#include "pool/internal.h"

static CUresult allocate_past_pool(struct pool *pool, CUdeviceptr *pointer,
                                   const struct pool_kind *kind, size_t bytes,
                                   const struct pitch_request *pitch) {
    return pitch ? pool->driver->mem_alloc_pitch(pointer, pitch->pitch, pitch->width, pitch->height,
                                                 pitch->element)
                 : source_allocate(pool, kind, bytes, pointer);
}

CUresult malloc_without_context(struct pool *pool, const struct pool_kind *kind,
                                CUdeviceptr *pointer, size_t bytes,
                                const struct pitch_request *pitch) {
    lock_check_none();
    unsigned attempts = 0;
    CUresult result = allocate_past_pool(pool, pointer, kind, bytes, pitch);
    while (driver_refused(result) &&
           pool_make_room(pool, source_call_name(kind), attempts++,
                          kind->memory == POOL_HOST ? POOL_ASKS_OTHER_MEMORY
                                                    : POOL_ASKS_DEVICE_MEMORY))
        result = allocate_past_pool(pool, pointer, kind, bytes, pitch);
    if (attempts && result == CUDA_SUCCESS)
        stats_add(STATS_oom_rescued, 1);
    if (result == CUDA_SUCCESS)
        context_learn_by(pool, *pointer);
    pool_note_error(pool, result);
    return result;
}
