/* What the hooked driver functions do: hand over to the pool what is the pool's, forward the rest.
 * Hooks of host memory are in host_hooks.c, of managed memory in managed_hooks.c. */
#include "interpose/driver_hooks.h"

#include "interpose/answer_requests.h"
#include "interpose/checked.h"
#include "interpose/record.h"
#include "interpose/surroundings.h"
#include "pool/cache_quick.h"

/* After QUICK_MISS: whether the driver has served the call, or else nothing has happened. */
static bool missed(struct pool *pool, CUdeviceptr *pointer, size_t bytes, uintptr_t site) {
    thread_marks.inside = true;
    bool served = cache_miss(pool, pointer, bytes, site);
    state_end_call();
    return served;
}

/* As the hook does, while calls are recorded. */
static bool alloc_recorded(CUdeviceptr *pointer, size_t bytes, uintptr_t known) {
    struct pool *pool = recorder_active() && known && !state_checks() ? state_pool() : NULL;
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
    if (alloc_recorded(pointer, bytes, known))
        return CUDA_SUCCESS;
    REQUIRE_DRIVER(cuMemAlloc_v2);
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemAlloc_v2)(pointer, bytes);
    struct call_site site = {.frames = {known}, .depth = 1};
    if (!known && !site_tag_find(&site))
        caller_find(&site, return_address, frame, (unsigned)state_options()->site_depth);
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
    thread_marks.inside = true;
    CUresult result = quick == QUICK_TRY ? pool_malloc(pool, pointer, bytes, &site)
                                         : pool_malloc_rest(pool, pointer, bytes, &site);
    steer_look(pool, false);
    state_end_call();
    return result;
}

/* The requests of other processes are left to frees and to what is not served here. */
CUresult hook_cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    struct pool *pool = atomic_load_explicit(&state_quick, memory_order_acquire);
    uintptr_t return_address = (uintptr_t)__builtin_return_address(0);
    uintptr_t frame = (uintptr_t)__builtin_dwarf_cfa(), site = 0;
    if (__builtin_expect(!pool || thread_marks.any || !(site = caller_quick(return_address, frame)),
                         0))
        return alloc(pointer, bytes, return_address, frame);
    enum quick quick = quick_malloc(pool, pointer, bytes, site, false);
    if (__builtin_expect(quick == QUICK_DONE, 1))
        return CUDA_SUCCESS;
    if (quick == QUICK_MISS && missed(pool, pointer, bytes, site))
        return CUDA_SUCCESS;
    return alloc_rest(pool, pointer, bytes, site, quick);
}

CUresult hook_cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                                 unsigned int element) {
    REQUIRE_DRIVER(cuMemAllocPitch_v2);
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    struct call_site site;
    FIND_CALLER(&site);
    CUresult result = checked_malloc_pitch(pool, pointer, pitch, width, height, element, &site);
    record_alloc(result, pointer, result == CUDA_SUCCESS ? *pitch * height : 0, &site, NULL);
    steer_look(pool, false);
    state_end_call();
    return result;
}

/* The whole way of a free. tried: quick_free, in vain. recorded: as that event, or UINT64_MAX. */
__attribute__((noinline)) static CUresult free_rest(CUdeviceptr pointer, bool tried,
                                                    uint64_t recorded) {
    REQUIRE_DRIVER(cuMemFree_v2);
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
    REQUIRE_DRIVER(cuMemFree_v2);
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemFree_v2)(pointer);
    struct call_site at;
    if (!site_tag_find(&at))
        caller_find(&at, return_address, frame, (unsigned)state_options()->site_depth);
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
    REQUIRE_DRIVER(cuMemGetInfo_v2);
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemGetInfo_v2)(free_bytes, total_bytes);
    CUresult result = pool_mem_get_info(pool, free_bytes, total_bytes);
    if (state_check() && result == CUDA_SUCCESS && free_bytes)
        *free_bytes += check_quarantined(state_check());
    return state_end_call_with(pool, result);
}

/* What lies at a pointer, interior ones included: what the driver says, but for what it cannot
 * know. */
struct place {
    CUresult result; /* of cuMemGetAddressRange */
    enum pool_pointer_state state;
    CUdeviceptr base;
    size_t bytes;
    bool part; /* of an allocation of the driver's */
};

/* About host memory cuMemGetAddressRange need not know [cuda.h names cuMemAlloc's alone]. */
static bool starts_at(CUdeviceptr pointer, CUdeviceptr *base) {
    return REAL(cuPointerGetAttribute) &&
           REAL(cuPointerGetAttribute)(base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer) ==
               CUDA_SUCCESS;
}

/* Natively neither an idle block exists nor the part of a block beyond the program's request. */
static struct place find_place(struct pool *pool, CUdeviceptr pointer) {
    struct place place = {.state = POOL_POINTER_UNKNOWN};
    size_t requested = 0;
    struct pool_suballocation part;
    bool is_part = pool_find_suballocation(pool, pointer, &part);
    if (state_check())
        place.state = check_find(state_check(), pointer, &place.base, &place.bytes);
    if (place.state != POOL_POINTER_UNKNOWN) {
        place.part = is_part && !part.whole;
        return place;
    }
    if (is_part) {
        bool beyond = pointer - part.base >= part.requested;
        return (struct place){CUDA_SUCCESS, beyond ? POOL_POINTER_IDLE : part.state, part.base,
                              part.requested, !part.whole};
    }
    place.result = REAL(cuMemGetAddressRange_v2)
                       ? REAL(cuMemGetAddressRange_v2)(&place.base, &place.bytes, pointer)
                       : CUDA_ERROR_NOT_FOUND;
    if (place.result != CUDA_SUCCESS && !starts_at(pointer, &place.base))
        return place;
    place.state = pool_pointer_state(pool, place.base, &requested);
    if (place.state == POOL_POINTER_LIVE)
        place.bytes = requested;
    if (place.state == POOL_POINTER_LIVE && pointer - place.base >= requested)
        place.state = POOL_POINTER_IDLE;
    return place;
}

bool hook_is_idle(struct pool *pool, CUdeviceptr pointer) {
    return find_place(pool, pointer).state == POOL_POINTER_IDLE;
}

enum pool_pointer_state hook_find(struct pool *pool, CUdeviceptr pointer, CUdeviceptr *base,
                                  size_t *bytes) {
    struct place place = find_place(pool, pointer);
    *base = place.base;
    *bytes = place.bytes;
    return place.state;
}

CUresult hook_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuMemGetAddressRange_v2);
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemGetAddressRange_v2)(base, bytes, pointer);
    struct place place = find_place(pool, pointer);
    state_end_call();
    if (place.result != CUDA_SUCCESS)
        return place.result;
    if (place.state == POOL_POINTER_IDLE)
        return CUDA_ERROR_NOT_FOUND;
    if (base)
        *base = place.base;
    if (bytes)
        *bytes = place.bytes;
    return CUDA_SUCCESS;
}

/* The driver's answer to a call that ties state to the allocation at `pointer`; the block is then
 * really freed one day. Others may look at it without a call of ours: no wait may be owed. */
#define SHARE(name, pointer, reason, ...)                                                          \
    do {                                                                                           \
        REQUIRE_DRIVER(name);                                                                      \
        struct pool *pool = state_begin_call();                                                    \
        if (!pool)                                                                                 \
            return REAL(name)(__VA_ARGS__);                                                        \
        pool_reason_stays(pool, WAIT_REASON_exported);                                             \
        pool_pay(pool, #name);                                                                     \
        CUresult result = find_place(pool, pointer).state == POOL_POINTER_IDLE                     \
                              ? CUDA_ERROR_INVALID_VALUE                                           \
                              : REAL(name)(__VA_ARGS__);                                           \
        if (result == CUDA_SUCCESS)                                                                \
            pool_taint(pool, pointer, reason);                                                     \
        return state_end_call_with(pool, result);                                                  \
    } while (0)

CUresult hook_cuIpcGetMemHandle(void *handle, CUdeviceptr pointer) {
    CUresult allowed = checked_handle(pointer);
    if (allowed != CUDA_SUCCESS)
        return allowed;
    struct pool *shared = thread_marks.inside ? NULL : state_pool();
    if (shared && !pool_can_share(shared, pointer)) {
        state_say_once("poolcuda: cuIpcGetMemHandle: with this POOLCUDA_POLICY a block is no "
                       "allocation of its "
                       "own and cannot be shared with a process; use POOLCUDA_POLICY=site");
        return CUDA_ERROR_INVALID_VALUE;
    }
    SHARE(cuIpcGetMemHandle, pointer, POOL_TAINT_IPC, handle, pointer);
}

CUresult hook_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr pointer, size_t bytes,
                                            int type, unsigned long long flags) {
    CUresult allowed = checked_handle(pointer);
    if (allowed != CUDA_SUCCESS)
        return allowed;
    SHARE(cuMemGetHandleForAddressRange, pointer, POOL_TAINT_DMA_BUF, handle, pointer, bytes, type,
          flags);
}

/* What the driver has told about a live block, as it would be without us. Some attributes tie
 * something outside our sight to the allocation by being read. */
static void correct_attribute(struct pool *pool, CUpointer_attribute attribute, void *data,
                              const struct place *place) {
    if (place->state != POOL_POINTER_LIVE)
        return;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = place->base;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = place->bytes;
        break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        pool_reason_stays(pool, WAIT_REASON_exported);
        pool_taint(pool, place->base, POOL_TAINT_P2P_TOKEN);
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        if (place->part)
            *(unsigned long long *)data = pool_suballocation_identity(pool, place->base);
        else
            pool_taint(pool, place->base, POOL_TAINT_BUFFER_ID);
        break;
    default:
        break;
    }
}

CUresult hook_cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuPointerGetAttribute);
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuPointerGetAttribute)(data, attribute, pointer);
    struct place place = find_place(pool, pointer);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (place.state != POOL_POINTER_IDLE)
        result = REAL(cuPointerGetAttribute)(data, attribute, pointer);
    if (result == CUDA_SUCCESS)
        correct_attribute(pool, attribute, data, &place);
    state_end_call();
    return result;
}

/* Unlike the single form, this one answers for no allocation as well, with null values [cuda.h]. */
CUresult hook_cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                     void **data, CUdeviceptr pointer) {
    static const CUdeviceptr nothing = 8; /* an address that is never memory */
    REQUIRE_DRIVER(cuPointerGetAttributes);
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuPointerGetAttributes)(count, attributes, data, pointer);
    struct place place = find_place(pool, pointer);
    CUresult result = REAL(cuPointerGetAttributes)(
        count, attributes, data, place.state == POOL_POINTER_IDLE ? nothing : pointer);
    for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; i++)
        correct_attribute(pool, attributes[i], data[i], &place);
    state_end_call();
    return result;
}

CUresult hook_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
    REQUIRE_DRIVER(cuPointerSetAttribute);
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuPointerSetAttribute)(value, attribute, pointer);
    pool_pay(pool, "cuPointerSetAttribute");
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (find_place(pool, pointer).state != POOL_POINTER_IDLE)
        result = REAL(cuPointerSetAttribute)(value, attribute, pointer);
    if (result == CUDA_SUCCESS && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        pool_taint(pool, pointer, POOL_TAINT_SYNC_MEMOPS);
    return state_end_call_with(pool, result);
}

/* Contexts that end: the pool lets go first, while their memory still exists. */

static void context_ending(CUcontext context, const char *call) {
    struct pool *pool = state_begin_call();
    if (!pool)
        return;
    pool_pay(pool, call);
    if (state_check())
        check_context_ending(state_check(), context);
    pool_context_ending(pool, context);
    if (state_check())
        check_contexts_ended(state_check());
    state_end_call();
}

#define CONTEXT_HOOK(name)                                                                         \
    CUresult hook_##name(CUcontext context) {                                                      \
        REQUIRE_DRIVER(name);                                                                      \
        context_ending(context, #name);                                                            \
        return REAL(name)(context);                                                                \
    }
CONTEXT_HOOK(cuCtxDestroy)
CONTEXT_HOOK(cuCtxDestroy_v2)
CONTEXT_HOOK(cuCtxDetach)

#define RESET_HOOK(name)                                                                           \
    CUresult hook_##name(CUdevice device) {                                                        \
        REQUIRE_DRIVER(name);                                                                      \
        struct pool *pool = state_begin_call();                                                    \
        if (pool) {                                                                                \
            pool_pay(pool, #name);                                                                 \
            if (state_check())                                                                     \
                check_primary_ending(state_check(), device);                                       \
            pool_primary_ending(pool, device);                                                     \
            if (state_check())                                                                     \
                check_contexts_ended(state_check());                                               \
            state_end_call();                                                                      \
        }                                                                                          \
        return REAL(name)(device);                                                                 \
    }
RESET_HOOK(cuDevicePrimaryCtxReset)
RESET_HOOK(cuDevicePrimaryCtxReset_v2)

/* Whether a release is the last one is known only afterwards: the runtime's own retain does not
 * come through a function. */
#define RELEASE_HOOK(name)                                                                         \
    CUresult hook_##name(CUdevice device) {                                                        \
        REQUIRE_DRIVER(name);                                                                      \
        struct pool *pool = state_begin_call();                                                    \
        if (!pool)                                                                                 \
            return REAL(name)(device);                                                             \
        pool_pay(pool, #name);                                                                     \
        if (state_check())                                                                         \
            check_primary_ending(state_check(), device);                                           \
        pool_primary_releasing(pool, device);                                                      \
        CUresult result = REAL(name)(device);                                                      \
        pool_primary_released(pool, device);                                                       \
        if (state_check())                                                                         \
            check_contexts_ended(state_check());                                                   \
        state_end_call();                                                                          \
        return result;                                                                             \
    }
RELEASE_HOOK(cuDevicePrimaryCtxRelease)
RELEASE_HOOK(cuDevicePrimaryCtxRelease_v2)

static void green_ending(CUcontext context) {
    struct pool *pool = state_begin_call();
    if (!pool)
        return;
    pool_pay(pool, "cuGreenCtxDestroy");
    if (state_check())
        check_green_ending(state_check(), context);
    pool_green_ending(pool, context);
    if (state_check())
        check_contexts_ended(state_check());
    state_end_call();
}

/* The CUcontext that stands for a green context dies with it. */
CUresult hook_cuGreenCtxDestroy(void *green_context) {
    CUcontext context = NULL;
    CUresult (*context_of)(CUcontext *, void *);
    REQUIRE_DRIVER(cuGreenCtxDestroy);
    *(void **)&context_of = real_find("cuCtxFromGreenCtx");
    if (context_of && context_of(&context, green_context) == CUDA_SUCCESS)
        green_ending(context);
    return REAL(cuGreenCtxDestroy)(green_context);
}
