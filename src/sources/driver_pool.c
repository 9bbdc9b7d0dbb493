#include "sources/driver_pool.h"

#include "base/lock.h"

#include <stdlib.h>

/* A tool between that sees some of these functions alone would miscount: an allocation that it has
 * not seen is nothing that it lets be freed. Lock not held. */
static bool has_entries(const struct driver *driver) {
    lock_check_none();
    return !driver->others_pools && driver->mem_pool_create && driver->mem_pool_destroy &&
           driver->mem_pool_set_attribute && driver->mem_pool_get_attribute &&
           driver->mem_pool_trim_to && driver->mem_alloc_from_pool_async &&
           driver->mem_free_async && driver->stream_create && driver->stream_destroy &&
           driver->stream_synchronize;
}

CUresult driver_pool_make(const struct driver *driver, CUdevice ordinal, CUmemoryPool *made) {
    lock_check_none();
    const CUmemPoolProps wanted = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
    cuuint64_t keep_all = UINT64_MAX;
    int off = 0;
    CUresult result =
        has_entries(driver) ? driver->mem_pool_create(made, &wanted) : CUDA_ERROR_NOT_SUPPORTED;
    if (result != CUDA_SUCCESS)
        return result;
    driver->mem_pool_set_attribute(*made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all);
    /* An allocation is never to wait for a free that is still pending. */
    driver->mem_pool_set_attribute(*made, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &off);
    return CUDA_SUCCESS;
}

void driver_pool_destroy(const struct driver *driver, CUmemoryPool memory_pool, CUstream stream) {
    lock_check_none();
    if (stream)
        driver->stream_destroy(stream);
    if (memory_pool && driver->mem_pool_destroy(memory_pool) != CUDA_SUCCESS)
        driver->mem_pool_destroy(memory_pool); /* else what it holds is lost */
}

void driver_pool_end(const struct driver *driver, struct driver_pool *async, bool stream_gone) {
    lock_check_none();
    if (async)
        driver_pool_destroy(driver, async->memory_pool, stream_gone ? NULL : async->stream);
    free(async);
}

bool driver_pool_available(const struct driver *driver, const struct driver_pool *async,
                           uint64_t *bytes) {
    lock_check_none();
    size_t left, total;
    cuuint64_t reserved, used;
    if (driver->mem_get_info(&left, &total) != CUDA_SUCCESS ||
        driver->mem_pool_get_attribute(async->memory_pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                       &reserved) != CUDA_SUCCESS ||
        driver->mem_pool_get_attribute(async->memory_pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                                       &used) != CUDA_SUCCESS)
        return false;
    *bytes = left + (reserved > used ? reserved - used : 0);
    return true;
}

size_t driver_pool_trim(const struct driver *driver, CUmemoryPool handle, size_t bytes) {
    lock_check_none();
    cuuint64_t before = 0, after = 0;
    driver->mem_pool_get_attribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &before);
    driver->mem_pool_trim_to(handle, before > bytes ? before - bytes : 0);
    driver->mem_pool_get_attribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &after);
    return after < before ? before - after : 0;
}
