/* What the hooked driver functions do: hand over to the pool what is the pool's, forward the rest.
 * Hooks of host memory are in host_hooks.c, of managed memory in managed_hooks.c, of questions
 * about pointers in pointer_hooks.c. */
#include "interpose/driver_hooks.h"

#include "interpose/beyond.h"
#include "interpose/checked.h"
#include "interpose/given_addresses.h"
#include "interpose/record.h"
#include "interpose/surroundings.h"
#include "peers/answer_requests.h"

/* As the hook does, while calls are recorded. */
static bool alloc_recorded(CUdeviceptr *pointer, size_t bytes, uintptr_t known) {
    struct pool *pool = recorder_active() && !state_checks() ? state_pool() : NULL;
    if (!pool)
        return false;
    enum quick quick = quick_malloc(pool, pointer, bytes, known, false);
    if (quick != QUICK_DONE && !(quick == QUICK_MISS && missed(pool, pointer, bytes, known)))
        return false;
    struct call_site site = {.frames = {known}, .depth = 1};
    recorder_alloc(*pointer, bytes, &site, record_device(), 0);
    return true;
}

/* The whole way of a call. */
__attribute__((noinline)) static CUresult alloc(CUdeviceptr *pointer, size_t bytes,
                                                uintptr_t return_address, uintptr_t frame) {
    uintptr_t known = thread_marks.any ? 0 : caller_quick(return_address, frame);
    if (known ? alloc_recorded(pointer, bytes, known)
              : !thread_marks.any && beyond_hit(pointer, bytes, return_address, frame))
        return CUDA_SUCCESS;
    if (!real_has(HOOK_cuMemAlloc_v2, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemAlloc_v2)(pointer, bytes);
    struct call_site site = {.frames = {known}, .depth = 1};
    if (!known)
        find_site(&site, return_address, frame);
    CUresult result = checked_malloc(pool, pointer, bytes, &site);
    record_alloc(result, pointer, bytes, &site, NULL);
    steer_look(pool, false);
    state_end_call();
    return result;
}

/* What neither quick_malloc nor cache_miss has served, for the site of that site_id(). */
__attribute__((noinline)) static CUresult alloc_rest(struct pool *pool, CUdeviceptr *pointer,
                                                     size_t bytes, uintptr_t known,
                                                     enum quick quick) {
    const struct call_site site = {.frames = {known}, .depth = 1};
    state_enter();
    CUresult result = quick == QUICK_TRY ? pool_malloc(pool, pointer, bytes, &site)
                                         : pool_malloc_rest(pool, pointer, bytes, &site);
    steer_look(pool, false);
    state_end_call();
    return result;
}

/* The requests of other processes are left to frees and to what is not served here. The frame's
 * address is named anew where it is wanted, as a variable would cost each hit an instruction. */
CUresult hook_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    struct pool *pool = atomic_load_explicit(&state_quick, memory_order_acquire);
    uintptr_t return_address = (uintptr_t)__builtin_return_address(0);
    uintptr_t site = 0;
    if (__builtin_expect(
            !pool || thread_marks.any ||
                !(site = caller_quick(return_address, (uintptr_t)__builtin_dwarf_cfa())),
            0))
        return alloc(pointer, bytes, return_address, (uintptr_t)__builtin_dwarf_cfa());
    enum quick quick = quick_malloc(pool, pointer, bytes, site, false);
    if (__builtin_expect(quick == QUICK_MISS, 0) ? missed(pool, pointer, bytes, site)
                                                 : quick == QUICK_DONE)
        return CUDA_SUCCESS;
    return alloc_rest(pool, pointer, bytes, site, quick);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                                 unsigned int element) {
    if (!real_has(HOOK_cuMemAllocPitch_v2, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    struct call_site site;
    find_caller(&site);
    CUresult result = checked_malloc_pitch(pool, pointer, pitch, width, height, element, &site);
    record_alloc(result, pointer, result == CUDA_SUCCESS ? *pitch * height : 0, &site, NULL);
    steer_look(pool, false);
    state_end_call();
    return result;
}

/* The whole way of a free. tried: quick_free, in vain. recorded: as that event, or UINT64_MAX. */
__attribute__((noinline)) static CUresult free_rest(CUdeviceptr pointer, bool tried,
                                                    uint64_t recorded) {
    if (!real_has(HOOK_cuMemFree_v2, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemFree_v2)(pointer);
    if (surroundings_change())
        surroundings_look(pool);
    if (recorded == UINT64_MAX)
        recorded = record_free(pointer, NULL);
    CUresult result = tried ? pool_free_rest(pool, pointer) : pool_free(pool, pointer);
    record_freed(result, recorded, pointer);
    steer_look(pool, pointer && result == CUDA_SUCCESS);
    state_end_call();
    return result;
}

/* While memory is checked. */
static CUresult free_checked(CUdeviceptr pointer, uintptr_t return_address, uintptr_t frame) {
    if (!real_has(HOOK_cuMemFree_v2, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemFree_v2)(pointer);
    struct call_site at;
    find_site(&at, return_address, frame);
    uint64_t number = record_free(pointer, NULL);
    CUresult result = record_freed(checked_free(pool, pointer, &at), number, pointer);
    steer_look(pool, pointer && result == CUDA_SUCCESS);
    state_end_call();
    return result;
}

/* As the hook does, while calls are recorded. */
__attribute__((noinline)) static CUresult free_recorded(CUdeviceptr pointer,
                                                        uintptr_t return_address, uintptr_t frame) {
    if (state_checks())
        return free_checked(pointer, return_address, frame);
    struct pool *pool = recorder_active() && pointer && !thread_marks.inside ? state_pool() : NULL;
    if (!pool || surroundings_change() || mailbox_waits())
        return free_rest(pointer, false, UINT64_MAX);
    uint64_t number = recorder_free(pointer, 0);
    enum quick quick = quick_free(pool, pointer, false);
    return quick == QUICK_DONE ? CUDA_SUCCESS : free_rest(pointer, quick == QUICK_NO, number);
}

CUresult hook_cuMemFree_v2(CUdeviceptr pointer) {
    struct pool *pool = atomic_load_explicit(&state_quick, memory_order_acquire);
    if (__builtin_expect(!pool || thread_marks.inside || surroundings_change() || mailbox_waits(),
                         0))
        return free_recorded(pointer, (uintptr_t)__builtin_return_address(0),
                             (uintptr_t)__builtin_dwarf_cfa());
    enum quick quick = quick_free(pool, pointer, false);
    if (__builtin_expect(quick == QUICK_DONE, 1))
        return CUDA_SUCCESS;
    return free_rest(pointer, quick == QUICK_NO, UINT64_MAX);
}

CUresult hook_cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    if (!real_has(HOOK_cuMemGetInfo_v2, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
    size_t available = 0, total = 0;
    CUresult result = CUDA_SUCCESS;
    if (!free_bytes || !total_bytes) /* whether that is an error, the driver says */
        result = REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
    if (result == CUDA_SUCCESS)
        result = pool_mem_get_info(pool, &available, &total);
    if (result != CUDA_SUCCESS)
        return state_end_call_with(pool, result);
    if (state_check())
        available += check_quarantined(state_check());
    if (free_bytes)
        *free_bytes = available < total ? available : total;
    if (total_bytes)
        *total_bytes = total;
    return state_end_call_with(pool, result);
}

/* A thread that may use a context counts, though it may never allocate (order/order.h). */

#define CURRENT_HOOK(name)                                                                         \
    CUresult hook_##name(CUcontext context) {                                                      \
        if (!real_has(HOOK_##name, 0))                                                             \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        thread_number();                                                                           \
        return REAL(name)(context);                                                                \
    }
CURRENT_HOOK(cuCtxSetCurrent)
CURRENT_HOOK(cuCtxPushCurrent)
CURRENT_HOOK(cuCtxPushCurrent_v2)

/* Contexts that end: the pool lets go first, while their memory still exists. */

/* What precedes every end. Returns the pool, in whose call it is then, for pool_end_is_over. NULL:
 * there is none, or it is a host function's call, which the driver refuses. */
static struct pool *begin_end(const char *call) {
    struct pool *pool = state_begin_call();
    if (!pool)
        return NULL;
    if (pool_permits_no_free(pool)) {
        state_end_call();
        return NULL;
    }
    pool_end_begins(pool);
    pool_pay(pool, call);
    given_forget();
    return pool;
}

static struct pool *context_ending(CUcontext context, const char *call) {
    struct pool *pool = begin_end(call);
    if (pool && state_check())
        check_context_ending(state_check(), context);
    return pool;
}

/* Another thread may have destroyed the context at the same time. */
static bool has_ended(CUresult result) {
    return result == CUDA_SUCCESS || result == CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static CUresult end_created(struct pool *pool, CUcontext context, CUresult (*real)(CUcontext)) {
    pool_context_ending(pool, context);
    state_end_call();
    CUresult result = real(context);
    if (state_check())
        check_context_ended(state_check(), context, result == CUDA_SUCCESS);
    pool_end_is_over(pool, has_ended(result));
    return result;
}

/* Whether it has ended is known only afterwards. detaches: a success may have ended one use of it
 * alone; behind any other nobody may touch the handle. */
static CUresult end_use(struct pool *pool, CUcontext context, CUresult (*real)(CUcontext),
                        bool detaches) {
    bool current = pool_context_releasing(pool, context);
    CUresult result = real(context);
    bool ended = has_ended(result);
    if (detaches && result == CUDA_SUCCESS)
        ended = !pool_context_goes_on(pool, context, current);
    pool_context_released(pool, context, ended);
    if (state_check())
        check_context_ended(state_check(), context, ended);
    pool_end_is_over(pool, ended);
    return state_end_call_with(pool, result);
}

/* The driver refuses to destroy a primary context. */
static CUresult end_context(CUcontext context, const char *call, CUresult (*real)(CUcontext)) {
    struct pool *pool = context_ending(context, call);
    if (!pool)
        return real(context);
    return pool_context_is_created(pool, context) ? end_created(pool, context, real)
                                                  : end_use(pool, context, real, false);
}

static CUresult detach(CUcontext context, const char *call, CUresult (*real)(CUcontext)) {
    struct pool *pool = context_ending(context, call);
    return pool ? end_use(pool, context, real, true) : real(context);
}

/* The hook of a driver function that ends something. */
#define END_HOOK(name, type, end)                                                                  \
    CUresult hook_##name(type ended) {                                                             \
        return real_has(HOOK_##name, 0) ? end(ended, #name, REAL(name))                            \
                                        : CUDA_ERROR_NOT_INITIALIZED;                              \
    }
END_HOOK(cuCtxDestroy, CUcontext, end_context)
END_HOOK(cuCtxDestroy_v2, CUcontext, end_context)
END_HOOK(cuCtxDetach, CUcontext, detach)

/* A number below 0 is no device's: to the pool it stands for all contexts that are not primary. */
static struct pool *primary_ending(CUdevice device, const char *call) {
    struct pool *pool = device < 0 ? NULL : begin_end(call);
    if (pool && state_check())
        check_primary_ending(state_check(), device);
    return pool;
}

static CUresult reset_primary(CUdevice device, const char *call, CUresult (*real)(CUdevice)) {
    struct pool *pool = primary_ending(device, call);
    if (!pool)
        return real(device);
    pool_primary_ending(pool, device);
    state_end_call();
    CUresult result = real(device);
    if (state_check())
        check_primary_ended(state_check(), device, result == CUDA_SUCCESS);
    pool_end_is_over(pool, result == CUDA_SUCCESS);
    return result;
}
END_HOOK(cuDevicePrimaryCtxReset, CUdevice, reset_primary)
END_HOOK(cuDevicePrimaryCtxReset_v2, CUdevice, reset_primary)

/* Whether a release is the last one is known only afterwards: the runtime's own retain does not
 * come through a function. */
static CUresult release_primary(CUdevice device, const char *call, CUresult (*real)(CUdevice)) {
    struct pool *pool = primary_ending(device, call);
    if (!pool)
        return real(device);
    pool_primary_releasing(pool, device);
    CUresult result = real(device);
    bool ended = pool_primary_released(pool, device);
    if (state_check())
        check_primary_ended(state_check(), device, ended);
    pool_end_is_over(pool, ended);
    state_end_call();
    return result;
}
END_HOOK(cuDevicePrimaryCtxRelease, CUdevice, release_primary)
END_HOOK(cuDevicePrimaryCtxRelease_v2, CUdevice, release_primary)

/* *device: whose primary context it releases, or -1. */
static void green_ending(struct pool *pool, CUcontext context, CUdevice *device) {
    *device = pool_green_ending(pool, context);
    if (*device < 0)
        return;
    if (state_check())
        check_green_ending(state_check(), *device);
    pool_primary_releasing(pool, *device);
}

static void green_ended(struct pool *pool, CUdevice device, bool ended) {
    bool primary_too = device >= 0 && pool_primary_released(pool, device);
    if (device >= 0 && state_check())
        check_primary_ended(state_check(), device, primary_too);
    pool_end_is_over(pool, ended);
}

/* The CUcontext that stands for a green context dies with it. */
CUresult hook_cuGreenCtxDestroy(void *green_context) {
    CUcontext context = NULL;
    CUdevice device;
    CUresult (*context_of)(CUcontext *, void *);
    if (!real_has(HOOK_cuGreenCtxDestroy, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    *(void **)&context_of = real_find("cuCtxFromGreenCtx");
    bool known = context_of && context_of(&context, green_context) == CUDA_SUCCESS;
    struct pool *pool = known ? begin_end("cuGreenCtxDestroy") : NULL;
    if (!pool)
        return REAL(cuGreenCtxDestroy)(green_context);
    green_ending(pool, context, &device);
    CUresult result = REAL(cuGreenCtxDestroy)(green_context);
    green_ended(pool, device, result == CUDA_SUCCESS);
    return state_end_call_with(pool, result);
}
