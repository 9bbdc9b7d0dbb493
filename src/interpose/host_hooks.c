/* Hooks of the driver's functions for pinned host memory, pooled or not: while the program has
 * some, it sees what work has done without a further call, so no wait may be owed. */
#include "interpose/checked.h"
#include "interpose/driver_hooks.h"

/* bytes of `flags`, or of POOL_HOST_PLAIN, for `call`. */
static CUresult alloc_host(struct pool *pool, void **memory, size_t bytes, unsigned int flags,
                           const char *call, const struct call_site *site) {
    pool_reason_begins(pool, WAIT_REASON_pinned);
    pool_pay(pool, call);
    CUresult result = pool_malloc_host(pool, memory, bytes, flags, site);
    if (result == CUDA_SUCCESS)
        checked_given((CUdeviceptr)(uintptr_t)*memory, bytes);
    else
        pool_reason_ends(pool, WAIT_REASON_pinned);
    return state_end_call_with(pool, result);
}

CUresult hook_cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags) {
    if (!real_has(HOOK_cuMemHostAlloc, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct call_site site;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemHostAlloc)(memory, bytes, flags);
    find_caller(&site);
    return alloc_host(pool, memory, bytes, flags, "cuMemHostAlloc", &site);
}

CUresult hook_cuMemAllocHost_v2(void **memory, size_t bytes) {
    if (!real_has(HOOK_cuMemAllocHost_v2, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct call_site site;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemAllocHost_v2)(memory, bytes);
    find_caller(&site);
    return alloc_host(pool, memory, bytes, POOL_HOST_PLAIN, "cuMemAllocHost", &site);
}

CUresult hook_cuMemFreeHost(void *memory) {
    if (!real_has(HOOK_cuMemFreeHost, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemFreeHost)(memory);
    pool_pay(pool, "cuMemFreeHost");
    CUresult result = checked_free_host(pool, memory);
    if (memory && result == CUDA_SUCCESS)
        pool_reason_ends(pool, WAIT_REASON_pinned);
    return state_end_call_with(pool, result);
}

/* The driver's answer about host memory, which is INVALID_VALUE for what is idle. */
#define ASK(name, memory, ...)                                                                     \
    do {                                                                                           \
        if (!real_has(HOOK_##name, 0))                                                             \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        struct pool *pool = state_begin_call();                                                    \
        if (!pool)                                                                                 \
            return REAL(name)(__VA_ARGS__);                                                        \
        CUdeviceptr asked = hook_asked(pool, (CUdeviceptr)(uintptr_t)(memory));                    \
        bool exists = asked != POOL_NOWHERE;                                                       \
        (memory) = (void *)(uintptr_t)asked;                                                       \
        CUresult result = REAL(name)(__VA_ARGS__);                                                 \
        if (result == CUDA_SUCCESS && !exists)                                                     \
            result = CUDA_ERROR_INVALID_VALUE;                                                     \
        return state_end_call_with(pool, result);                                                  \
    } while (0)

CUresult hook_cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *memory, unsigned int flags) {
    ASK(cuMemHostGetDevicePointer_v2, memory, pointer, memory, flags);
}

CUresult hook_cuMemHostGetFlags(unsigned int *flags, void *memory) {
    ASK(cuMemHostGetFlags, memory, flags, memory);
}
