/* Hooks of the driver's functions that allocate managed memory, pooled or not, and that tell what
 * has been said about it. */
#include "interpose/checked.h"
#include "interpose/driver_hooks.h"

/* From the first one on the program sees what work has done without a further call. */
CUresult hook_cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags) {
    if (!real_has(HOOK_cuMemAllocManaged, 0))
        return CUDA_ERROR_NOT_INITIALIZED;
    struct call_site site;
    struct pool *pool = state_begin_call();
    if (!pool)
        return REAL(cuMemAllocManaged)(pointer, bytes, flags);
    find_caller(&site);
    pool_reason_stays(pool, WAIT_REASON_managed);
    pool_pay(pool, "cuMemAllocManaged");
    CUresult result = pool_malloc_managed(pool, pointer, bytes, flags, &site);
    if (result == CUDA_SUCCESS)
        checked_given(*pointer, bytes);
    return state_end_call_with(pool, result);
}

/* About memory that was prefetched for former owners alone: it was to nowhere. Ids are not looked
 * at then [cuda.h]. */
static void correct(CUmem_range_attribute attribute, void *data) {
    enum { LAST_PREFETCH_LOCATION_TYPE = 7, NOWHERE = 0 }; /* older headers have none */
    if (attribute == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION)
        *(int *)data = CU_DEVICE_INVALID;
    else if ((int)attribute == LAST_PREFETCH_LOCATION_TYPE)
        *(int *)data = NOWHERE;
}

/* What both functions do. data, attributes: of `count` questions. */
#define ASK(name, data, attributes, count, pointer, ...)                                           \
    do {                                                                                           \
        CUdeviceptr base;                                                                          \
        size_t requested;                                                                          \
        if (!real_has(HOOK_##name, 0))                                                             \
            return CUDA_ERROR_NOT_INITIALIZED;                                                     \
        struct pool *pool = state_begin_call();                                                    \
        if (!pool)                                                                                 \
            return REAL(name)(__VA_ARGS__);                                                        \
        pool_pay(pool, #name);                                                                     \
        enum pool_pointer_state state = hook_find(pool, pointer, &base, &requested);               \
        if (state == POOL_POINTER_IDLE)                                                            \
            (pointer) = POOL_NOWHERE;                                                              \
        CUresult result = REAL(name)(__VA_ARGS__);                                                 \
        if (state == POOL_POINTER_IDLE && result == CUDA_SUCCESS)                                  \
            result = CUDA_ERROR_INVALID_VALUE;                                                     \
        bool old = state == POOL_POINTER_LIVE && pool_managed_prefetch_is_old(pool, base);         \
        for (size_t i = 0; old && result == CUDA_SUCCESS && i < (count); i++)                      \
            correct((attributes)[i], (data)[i]);                                                   \
        return state_end_call_with(pool, result);                                                  \
    } while (0)

CUresult hook_cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute,
                                     CUdeviceptr pointer, size_t bytes) {
    ASK(cuMemRangeGetAttribute, &data, &attribute, (size_t)1, pointer, data, size, attribute,
        pointer, bytes);
}

CUresult hook_cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes,
                                      size_t count, CUdeviceptr pointer, size_t bytes) {
    ASK(cuMemRangeGetAttributes, data, attributes, count, pointer, data, sizes, attributes, count,
        pointer, bytes);
}
