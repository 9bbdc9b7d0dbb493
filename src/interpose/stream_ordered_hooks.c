/* Stream-ordered allocation: what the hooks of cuMemAllocAsync, cuMemAllocFromPoolAsync and
 * cuMemFreeAsync do. The driver serves them, from memory pools of its own, or, with
 * POOLCUDA_ASYNC=1, the pool. They are counted, and an allocation of the driver's is tried again
 * once idle memory was given back. */
#include "interpose/checked.h"
#include "interpose/driver_hooks.h"
#include "interpose/record.h"

/* One allocation. null_stream: what the form takes a null stream for. */
struct allocation {
    const char *name;
    real_cuMemAllocAsync_function *from_current; /* one of the two */
    real_cuMemAllocFromPoolAsync_function *from_pool;
    CUdeviceptr *pointer;
    size_t bytes;
    CUmemoryPool memory_pool; /* of from_pool */
    CUstream stream, null_stream;
};

static CUresult call_driver(const struct allocation *call) {
    return call->from_pool
               ? call->from_pool(call->pointer, call->bytes, call->memory_pool, call->stream)
               : call->from_current(call->pointer, call->bytes, call->stream);
}

/* As the stubs do for all else that allocates: see call_effects.c. */
static CUresult ask_until_there_is_room(struct pool *pool, const struct allocation *call) {
    pool_pay(pool, call->name);
    CUresult result = call_driver(call);
    unsigned attempt = 0;
    while (driver_refused(result) &&
           checked_make_room(pool, call->name, attempt, POOL_ASKS_DEVICE_MEMORY)) {
        attempt++;
        result = call_driver(call);
    }
    if (result == CUDA_SUCCESS && attempt) {
        stats_add(STATS_oom_rescued, 1);
        stats_add(STATS_async_rescued, 1);
    }
    return result;
}

/* In a capture it allocates when the graph runs, if at all. */
static void record(struct pool *pool, const struct allocation *call, const struct call_site *site) {
    bool per_thread = !call->stream && call->null_stream == CU_STREAM_PER_THREAD;
    if (!pool_is_capturing(pool))
        record_alloc(CUDA_SUCCESS, call->pointer, call->bytes, site,
                     per_thread ? CU_STREAM_PER_THREAD : call->stream);
}

static CUresult serve(struct pool *pool, const struct allocation *call,
                      const struct call_site *site) {
    CUstream meant = call->stream ? call->stream : call->null_stream;
    bool known = call->from_current || call->memory_pool; /* else an error, which is the driver's */
    if (known &&
        pool_malloc_async(pool, call->pointer, call->bytes, call->memory_pool, meant, site))
        return CUDA_SUCCESS;
    return ask_until_there_is_room(pool, call);
}

static CUresult allocate(const struct allocation *call, uintptr_t return_address, uintptr_t frame) {
    uintptr_t known = thread_marks.any ? 0 : caller_quick(return_address, frame);
    struct pool *pool = state_begin_call();
    if (!pool)
        return call_driver(call);
    struct call_site site = {.frames = {known}, .depth = 1};
    bool wanted = recorder_active() || state_options()->ordered;
    if (wanted && !known)
        find_site(&site, return_address, frame);
    if (call->null_stream == CU_STREAM_PER_THREAD)
        pool_reason_stays(pool, WAIT_REASON_per_thread_stream);
    stats_add(STATS_async_calls, 1);
    CUresult result = serve(pool, call, &site);
    if (result == CUDA_SUCCESS) {
        checked_given(*call->pointer, call->bytes);
        stats_add(STATS_async_bytes, call->bytes);
        if (wanted)
            record(pool, call, &site);
    }
    return state_end_call_with(pool, result);
}

/* The builtins speak of the hook they stand in, which entry.S has jumped to. */
#define ALLOCATE(...)                                                                              \
    allocate(&(struct allocation){__VA_ARGS__}, (uintptr_t)__builtin_return_address(0),            \
             (uintptr_t)__builtin_dwarf_cfa())

#define ALLOC_HOOK(symbol, null)                                                                   \
    CUresult hook_##symbol(CUdeviceptr *pointer, size_t bytes, CUstream stream) {                  \
        if (!real_has(HOOK_##symbol, 0))                                                           \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        return ALLOCATE(#symbol, REAL(symbol), NULL, pointer, bytes, NULL, stream, null);          \
    }
ALLOC_HOOK(cuMemAllocAsync, CU_STREAM_LEGACY)
ALLOC_HOOK(cuMemAllocAsync_ptsz, CU_STREAM_PER_THREAD)

#define ALLOC_FROM_POOL_HOOK(symbol, null)                                                         \
    CUresult hook_##symbol(CUdeviceptr *pointer, size_t bytes, CUmemoryPool memory_pool,           \
                           CUstream stream) {                                                      \
        if (!real_has(HOOK_##symbol, 0))                                                           \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        return ALLOCATE(#symbol, NULL, REAL(symbol), pointer, bytes, memory_pool, stream, null);   \
    }
ALLOC_FROM_POOL_HOOK(cuMemAllocFromPoolAsync, CU_STREAM_LEGACY)
ALLOC_FROM_POOL_HOOK(cuMemAllocFromPoolAsync_ptsz, CU_STREAM_PER_THREAD)

/* One call of cuMemFreeAsync. meant: what the form takes a null stream for. */
struct async_free {
    real_cuMemFreeAsync_function *real;
    CUdeviceptr pointer;
    CUstream stream, meant;
    struct check_block *disowned; /* to be given to check_disowned with the driver's answer */
};

/* Whether the driver refuses any free in that stream, which may be none, or in no context: a free
 * of nothing tells. */
static bool is_refused(const struct async_free *call, CUresult *result) {
    *result = call->real(POOL_NOWHERE, call->stream);
    return *result != CUDA_ERROR_INVALID_VALUE;
}

/* It waits for the stream, or comes behind it. A capture of that stream the driver refuses, as of
 * any memory that is no graph's. */
static CUresult free_suballocation(struct pool *pool, const struct async_free *call) {
    CUresult refusal = pool_stream_refuses(pool, call->meant);
    if (refusal != CUDA_SUCCESS)
        return refusal;
    if (pool_stream_is_captured(pool, call->meant))
        return call->real(call->pointer, call->stream);
    return is_refused(call, &refusal) ? refusal : pool_free_suballocation(pool, call->pointer);
}

/* The record goes first: once the driver has the memory back, another thread may be given it. */
static CUresult free_whole(struct pool *pool, const struct async_free *call) {
    struct pool_block *block = pool_disown(pool, call->pointer);
    CUresult result = call->real(call->pointer, call->stream);
    if (block && result == CUDA_SUCCESS)
        pool_disown_done(pool, block);
    else if (block)
        pool_readopt(pool, block);
    return result;
}

static CUresult free_by_driver(struct pool *pool, const struct async_free *call) {
    size_t requested;
    if (pool_pointer_state(pool, call->pointer, &requested) == POOL_POINTER_IDLE)
        return call->real(POOL_NOWHERE, call->stream); /* natively it is free already */
    return pool_is_suballocation(pool, call->pointer) ? free_suballocation(pool, call)
                                                      : free_whole(pool, call);
}

/* Where a free of checked memory is made, for its report. */
struct place {
    uintptr_t return_address, frame;
};

/* As free_checked. The block is checked no more, and for pool or driver to free. Unless it is in
 * use by the check: then that decides when. */
static bool free_beside_capture(struct pool *pool, struct check *check, struct async_free *call,
                                CUresult *result) {
    if (!pool_stream_is_captured(pool, call->meant)) {
        if (is_refused(call, result))
            return true;
        if (check_free_later(check, call->pointer)) {
            *result = CUDA_SUCCESS;
            return true;
        }
    }
    call->disowned = check_disown(check, &call->pointer);
    return false;
}

/* A stream-ordered free of what is checked waits, as a cuMemFree does. Returns whether the free was
 * made, and *result is the answer; else call->pointer is what pool and driver know. */
static bool free_checked(struct pool *pool, struct async_free *call, const struct place *place,
                         CUresult *result) {
    CUdeviceptr base;
    size_t bytes;
    struct check *check = state_check();
    if (!check)
        return false;
    call->pointer = check_as_freed(check, call->pointer);
    if (check_find(check, call->pointer, &base, &bytes) == POOL_POINTER_UNKNOWN)
        return false;
    if (pool_is_capturing(pool))
        return free_beside_capture(pool, check, call, result);
    if (is_refused(call, result))
        return true;
    struct call_site at;
    find_site(&at, place->return_address, place->frame);
    uint64_t number = record_free(call->pointer, call->meant);
    *result = record_freed(check_free(check, call->pointer, &at), number, call->pointer);
    return true;
}

static CUresult free_async(real_cuMemFreeAsync_function *real, CUdeviceptr pointer, CUstream stream,
                           CUstream null_stream, const struct place *place) {
    CUresult result;
    struct pool *pool = state_begin_call();
    if (!pool)
        return real(pointer, stream);
    struct async_free call = {real, pointer, stream, stream ? stream : null_stream, NULL};
    if (free_checked(pool, &call, place, &result))
        return state_end_call_with(pool, result);
    pool_pay(pool, "cuMemFreeAsync");
    stats_add(STATS_async_frees, call.pointer != 0);
    /* In a capture it frees when the graph runs. */
    uint64_t number = pool_is_capturing(pool) ? UINT64_MAX : record_free(call.pointer, call.meant);
    if (!pool_free_async(pool, call.pointer, call.meant, &result))
        result = free_by_driver(pool, &call);
    else if (result == CUDA_ERROR_INVALID_VALUE)
        result = real(POOL_NOWHERE, stream);
    if (call.disowned)
        check_disowned(state_check(), call.disowned, result);
    record_freed(result, number, call.pointer);
    return state_end_call_with(pool, result);
}

#define THIS_PLACE                                                                                 \
    &(struct place) {                                                                              \
        (uintptr_t) __builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa()                  \
    }

CUresult hook_cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    if (!real_has(HOOK_cuMemFreeAsync, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    return free_async(REAL(cuMemFreeAsync), pointer, stream, CU_STREAM_LEGACY, THIS_PLACE);
}

CUresult hook_cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
    if (!real_has(HOOK_cuMemFreeAsync_ptsz, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    return free_async(REAL(cuMemFreeAsync_ptsz), pointer, stream, CU_STREAM_PER_THREAD, THIS_PLACE);
}
