/* Devices whose kernels reach plain host memory, which the host reads without a call. */
#include "pool/internal.h"

/* What the driver says of one attribute, `otherwise` with an error. That it does not know the
 * attribute is an answer. */
static bool ask(const struct pool *pool, CUdevice ordinal, CUdevice_attribute attribute,
                bool otherwise, CUresult *result) {
    int value = 0;
    *result = pool->driver->device_get_attribute(&value, attribute, ordinal);
    if (*result != CUDA_ERROR_INVALID_VALUE)
        return *result == CUDA_SUCCESS ? value != 0 : otherwise;
    *result = CUDA_SUCCESS;
    return otherwise;
}

CUresult host_access_of(const struct pool *pool, CUdevice ordinal, enum host_access *access) {
    CUresult result;
    *access = HOST_NEVER;
    if (!ask(pool, ordinal, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, false, &result))
        return result;
    bool by_tables =
        ask(pool, ordinal, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, true,
            &result);
    *access =
        by_tables || pool->config.pageable == POOL_PAGEABLE_WAIT ? HOST_ALWAYS : HOST_BY_ADDRESS;
    return result;
}

/* Only with auto do frees owe, and with no more devices than a machine can have does the driver
 * stop at a number. */
enum pool_awaits pool_awaits_host_addresses(struct pool *pool) {
    enum { DEVICES_MAX = 1024 };
    enum pool_awaits awaits = POOL_AWAITS_NEVER;
    if (pool->config.free_mode != POOL_FREE_AUTO || pool->config.pageable != POOL_PAGEABLE_LOOK ||
        atomic_load(&pool->host_reached))
        return POOL_AWAITS_NEVER;
    for (CUdevice ordinal = 0; ordinal < DEVICES_MAX; ordinal++) {
        enum host_access access;
        CUresult result = host_access_of(pool, ordinal, &access);
        if (result == CUDA_ERROR_INVALID_DEVICE)
            break;
        if (result != CUDA_SUCCESS)
            return POOL_AWAITS_NOT_YET;
        if (access == HOST_BY_ADDRESS)
            awaits = POOL_AWAITS_THE_FIRST;
    }
    return awaits;
}
