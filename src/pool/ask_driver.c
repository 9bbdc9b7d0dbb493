/* Asking the driver for a request's memory. */
#include "pool/internal.h"

/* Whether the policy obtains the memory. It needs to know how much, so not while the pitch is
 * unknown, or if that many rows are more than any address. */
static bool obtains(const struct request *request) {
    return request->context->source->obtain && request->site && (!request->pitch || request->size);
}

__attribute__((always_inline)) static inline CUresult ask_untimed(struct pool *pool,
                                                                  const struct request *request,
                                                                  size_t size,
                                                                  struct obtained *obtained) {
    const struct pitch_request *pitch = request->pitch;
    CUresult result;
    *obtained = (struct obtained){.size = size};
    if (obtains(request)) {
        result = request->context->source->obtain(pool, request, size, obtained);
        if (pitch && result == CUDA_SUCCESS)
            *pitch->pitch = pitch->known;
        return result;
    }
    if (!pitch)
        return source_obtain(pool, &request->context->kind, size, obtained);
    result = pool->driver->mem_alloc_pitch(&obtained->pointer, pitch->pitch, pitch->width,
                                           pitch->height, pitch->element);
    obtained->size = *pitch->pitch * pitch->height;
    if (result == CUDA_SUCCESS)
        stats_add(STATS_driver_allocs, 1);
    return result;
}

/* Kept out of the way of calls that go untimed. */
__attribute__((noinline)) static CUresult ask_timed(struct pool *pool,
                                                    const struct request *request, size_t size,
                                                    struct obtained *obtained) {
    enum pool_memory memory = request->context->kind.memory;
    uint64_t began = call_timer_start(STATS_CALL_ALLOC);
    CUresult result = ask_untimed(pool, request, size, obtained);
    if (result == CUDA_SUCCESS && source_is_timed(pool, memory))
        call_timer_stop(STATS_CALL_ALLOC, (enum stats_memory)memory, obtained->size, began);
    return result;
}

CUresult allocate_from_driver(struct pool *pool, const struct request *request, size_t size,
                              struct obtained *obtained) {
    lock_check_none();
    return call_timer_rests(STATS_CALL_ALLOC) ? ask_untimed(pool, request, size, obtained)
                                              : ask_timed(pool, request, size, obtained);
}
