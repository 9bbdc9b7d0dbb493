/* Kinds of memory: which functions of the driver's a block comes from, and how it is kept. */
#include "observe/call_timer.h"
#include "pool/internal.h"

const struct pool_kind kind_device = {.memory = POOL_DEVICE};

static CUresult allocate_host(const struct driver *driver, unsigned int flags, size_t size,
                              CUdeviceptr *pointer) {
    void *memory = NULL;
    CUresult result = flags & POOL_HOST_PLAIN ? driver->mem_alloc_host(&memory, size)
                                              : driver->mem_host_alloc(&memory, size, flags);
    if (result == CUDA_SUCCESS)
        *pointer = (CUdeviceptr)(uintptr_t)memory;
    return result;
}

CUresult source_allocate_other(const struct driver *driver, const struct pool_kind *kind,
                               size_t size, CUdeviceptr *pointer) {
    lock_check_none();
    return kind->memory == POOL_HOST ? allocate_host(driver, kind->flags, size, pointer)
                                     : driver->mem_alloc_managed(pointer, size, kind->flags);
}

_Static_assert((int)POOL_DEVICE == (int)STATS_DEVICE && (int)POOL_HOST == (int)STATS_HOST &&
                   (int)POOL_MANAGED == (int)STATS_MANAGED,
               "the report's kinds of memory are the pool's");

CUresult source_release_timed(const struct pool *pool, const struct pool_block *block) {
    lock_check_none();
    enum pool_memory memory = block->context->kind.memory;
    uint64_t began = call_timer_start(STATS_CALL_FREE);
    CUresult result = source_release(pool, memory, block->pointer);
    if (result == CUDA_SUCCESS && source_is_timed(pool, memory))
        call_timer_stop(STATS_CALL_FREE, (enum stats_memory)memory, block->size, began);
    return result;
}

const char *source_call_name(const struct pool_kind *kind) {
    switch (kind->memory) {
    case POOL_HOST:
        return kind->flags & POOL_HOST_PLAIN ? "cuMemAllocHost" : "cuMemHostAlloc";
    case POOL_MANAGED:
        return "cuMemAllocManaged";
    case POOL_DEVICE:
        break;
    }
    return "cuMemAlloc";
}

const struct policy *kind_policy(const struct pool *pool, const struct pool_kind *kind) {
    switch (kind->memory) {
    case POOL_HOST:
        return &policy_host;
    case POOL_MANAGED:
        return &policy_managed;
    case POOL_DEVICE:
        break;
    }
    return pool->policy;
}

size_t memory_pool_trim(const struct driver *driver, CUmemoryPool handle, size_t bytes) {
    lock_check_none();
    cuuint64_t before = 0, after = 0;
    driver->mem_pool_get_attribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &before);
    driver->mem_pool_trim_to(handle, before > bytes ? before - bytes : 0);
    driver->mem_pool_get_attribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &after);
    return after < before ? before - after : 0;
}
