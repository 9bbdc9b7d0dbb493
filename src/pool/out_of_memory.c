/* Asking the driver for memory, and what is done while it has none: idle memory is released, a
 * round at a time, until the driver has enough or nothing is idle. */
#include "observe/call_timer.h"
#include "policy/region.h"
#include "pool/internal.h"

/* Whether the policy obtains the memory. It needs to know how much, so not while the pitch is
 * unknown. */
static bool obtains(const struct request *request) {
    return request->context->policy->obtain && request->site &&
           (!request->pitch || request->pitch->known);
}

__attribute__((always_inline)) static inline CUresult ask_untimed(struct pool *pool,
                                                                  const struct request *request,
                                                                  size_t size,
                                                                  struct obtained *obtained) {
    const struct pitch_request *pitch = request->pitch;
    CUresult result;
    *obtained = (struct obtained){.size = size};
    if (obtains(request)) {
        if (pitch)
            *pitch->pitch = pitch->known;
        return request->context->policy->obtain(pool, request, size, obtained);
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

static CUresult allocate_from_driver(struct pool *pool, const struct request *request, size_t size,
                                     struct obtained *obtained) {
    return call_timer_rests(STATS_CALL_ALLOC) ? ask_untimed(pool, request, size, obtained)
                                              : ask_timed(pool, request, size, obtained);
}

/* Collects regions whose blocks are deferred: where no fence can be waited for, the driver's own
 * free waits. */
static void collect_deferred_regions(struct pool *pool, const struct device *device,
                                     struct release_list *releases) {
    struct context *context;
    struct pool_block *block;
    LIST_FOREACH (context, &pool->contexts, link)
        while (context->device == device && context->policy->cuts && !context->broken &&
               (block = region_without_live(&context->store)))
            release_list_add(pool, releases, block);
}

/* Releases idle blocks. Returns whether the driver has taken any back. Lock held. */
static bool release_idle(struct pool *pool, struct device *device, size_t bytes, bool *any) {
    lock_check_held(LOCK_POOL);
    struct release_list releases = {.device = device};
    if (!pool_driver_waits(pool))
        fence_drain(pool, device);
    release_refresh(pool, device);
    release_collect(pool, &(struct release_scope){device, NULL, true}, bytes, &releases);
    if (releases.bytes < bytes)
        collect_deferred_regions(pool, device, &releases);
    size_t count = releases.count;
    *any = count > 0 || releases.unused;
    if (!release_list_give_back(pool, &releases))
        return false;
    stats_add(STATS_oom_released_blocks, count);
    return true;
}

/* One round after a failure: releases idle blocks or waits for those that other threads release.
 * Returns whether anything may have changed since. Lock held. */
static bool make_room(struct pool *pool, struct device *device, size_t bytes) {
    lock_check_held(LOCK_POOL);
    bool any;
    if (release_idle(pool, device, bytes, &any))
        return true;
    if (any && release_idle(pool, device, bytes, &any)) /* refused for a passing reason */
        return true;
    if (!device->releasing)
        return false;
    while (device->releasing)
        pool_await_releases(pool);
    return true;
}

/* Releases idle blocks of the request's memory, at last all else that may lie in the same place.
 * There are devices that have no memory but the host's, and some from which managed memory does not
 * give way. Device memory is in nobody's way on the host. */
static bool make_room_for(struct pool *pool, const struct request *request, size_t bytes) {
    const struct context *context = request->context;
    const CUdevice others[] = {context->ordinal, ordinal_of_kind(POOL_MANAGED),
                               ordinal_of_kind(POOL_HOST)};
    bool made = make_room(pool, context->device, bytes);
    for (size_t i = context->kind.memory == POOL_HOST; !made && i < sizeof others / sizeof *others;
         i++) {
        struct device *other = context_find_device(pool, others[i]);
        made = other && other != context->device && make_room(pool, other, SIZE_MAX);
    }
    return made;
}

/* Asks for what was refused as rounded: rounding must not make the difference. Lock not held. */
static CUresult allocate_exactly(struct pool *pool, const struct request *request,
                                 struct obtained *obtained) {
    lock_check_none();
    if (request->pitch || request->size == request->bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate_from_driver(pool, request, request->bytes, obtained);
}

/* Asks again until a round begun after the failure has found nothing idle. Lock held on entry and
 * return. */
static CUresult retry(struct pool *pool, const struct request *request, struct pool_block **block,
                      struct obtained *obtained) {
    lock_check_held(LOCK_POOL);
    size_t bytes = request->size ? request->size : SIZE_MAX;
    while (make_room_for(pool, request, bytes)) {
        bytes = SIZE_MAX; /* releasing enough for the request did not do: all of it next time */
        if (request->site && request->size && !request->context->ended) {
            *block =
                pool_take(pool, request->context, request->site, request->bytes, request->size);
            if (*block && request->pitch)
                *request->pitch->pitch = request->pitch->known;
            if (*block)
                return CUDA_SUCCESS;
        }
        pool_unlock(pool);
        CUresult result = allocate_from_driver(pool, request, request->size, obtained);
        pool_lock(pool);
        if (result != CUDA_ERROR_OUT_OF_MEMORY)
            return result;
    }
    pool_unlock(pool);
    CUresult result = allocate_exactly(pool, request, obtained);
    pool_lock(pool);
    return result;
}

/* Whether the request fits into the device beside the program's own live memory, whatever others
 * give up. */
static bool could_fit(struct pool *pool, const struct device *device, size_t bytes) {
    if (device->memory != POOL_DEVICE) /* others are asked for no other kind */
        return false;
    pool_lock(pool);
    bool fits = device->live < device->total && bytes <= device->total - device->live;
    pool_unlock(pool);
    return fits;
}

/* Asks other processes on the device for memory that they hold idle. Lock not held. */
static bool others_helped(struct pool *pool, const struct device *device, size_t bytes) {
    lock_check_none();
    return pool->config.ask_others && !atomic_load(&pool->captures) &&
           pool->config.ask_others(device->uuid, bytes) > 0;
}

/* Asks twice, the second time for all that they have: what they gave need not lie in one piece. */
static CUresult ask_others_and_retry(struct pool *pool, const struct request *request,
                                     struct obtained *obtained) {
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    size_t bytes = request->size ? request->size : SIZE_MAX;
    if (!could_fit(pool, request->context->device, request->size))
        return result;
    for (int round = 0; round < 2 && result == CUDA_ERROR_OUT_OF_MEMORY &&
                        others_helped(pool, request->context->device, bytes);
         round++) {
        result = allocate_from_driver(pool, request, request->size, obtained);
        bytes = SIZE_MAX;
    }
    return result;
}

static CUresult trim_memory_pools_and_retry(struct pool *pool, const struct request *request,
                                            struct obtained *obtained, const char *call) {
    if (!memory_pools_give(pool, request->context->device->ordinal, call))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = allocate_from_driver(pool, request, request->size, obtained);
    return result == CUDA_ERROR_OUT_OF_MEMORY ? allocate_exactly(pool, request, obtained) : result;
}

CUresult allocate_or_make_room(struct pool *pool, const struct request *request,
                               struct pool_block **block, struct obtained *obtained) {
    lock_check_none();
    *block = NULL;
    CUresult result = allocate_from_driver(pool, request, request->size, obtained);
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    struct device *device = request->context->device;
    stats_add(STATS_oom_events, 1);
    pool_lock(pool);
    device->pressure++;
    device->oom_events++;
    result = retry(pool, request, block, obtained);
    device->pressure--;
    device->oom_rescued += result == CUDA_SUCCESS;
    pool_unlock(pool);
    const char *call =
        request->pitch ? "cuMemAllocPitch" : source_call_name(&request->context->kind);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        result = trim_memory_pools_and_retry(pool, request, obtained, call);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        result = ask_others_and_retry(pool, request, obtained);
    if (result == CUDA_SUCCESS)
        stats_add(STATS_oom_rescued, 1);
    else if (result == CUDA_ERROR_OUT_OF_MEMORY)
        shortage_report(pool, device, call, request->bytes);
    return result;
}

/* Enough for most of what a call other than an allocation may need. */
static const size_t first_room = 64 << 20;
enum { MOST_ATTEMPTS = 4 }; /* beyond them only our own idle memory is asked for */

/* Releases idle memory of `first` if there is any, else of whatever device has some: the call may
 * be about another device than the current context's. Lock held. */
static bool make_room_anywhere(struct pool *pool, struct device *first, size_t bytes) {
    lock_check_held(LOCK_POOL);
    struct device *device;
    bool made = first && make_room(pool, first, bytes);
    if (!made)
        LIST_FOREACH (device, &pool->devices, link)
            made |= make_room(pool, device, bytes);
    return made;
}

bool pool_make_room(struct pool *pool, const char *call, unsigned attempt, enum pool_asks asks) {
    CUdevice ordinal;
    if (atomic_load(&pool->down) || (asks == POOL_ASKS_NO_MEMORY && atomic_load(&pool->captures)))
        return false;
    if (pool->driver->ctx_get_device(&ordinal) != CUDA_SUCCESS)
        ordinal = -1;
    if (!attempt)
        stats_add(STATS_oom_events, 1);
    pool_lock(pool);
    struct device *device = context_find_device(pool, ordinal);
    if (device && !attempt)
        device->oom_events++;
    bool made = make_room_anywhere(pool, device, attempt ? SIZE_MAX : first_room);
    if (!device)
        device = LIST_FIRST(&pool->devices);
    pool_unlock(pool);
    /* Others give up device memory, which helps no call that asks for other memory. */
    bool takes = attempt < MOST_ATTEMPTS && asks != POOL_ASKS_OTHER_MEMORY;
    if (!made && takes)
        made = memory_pools_give(pool, ordinal, call);
    if (!made && device && takes)
        made = others_helped(pool, device, attempt ? SIZE_MAX : first_room);
    if (!made && device)
        shortage_report(pool, device, call, 0);
    return made;
}
