/* Kinds of memory: which functions of the driver's a block comes from, and how it is kept. */
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

CUresult kind_allocate_other(const struct driver *driver, const struct pool_kind *kind, size_t size,
                             CUdeviceptr *pointer) {
    return kind->memory == POOL_HOST ? allocate_host(driver, kind->flags, size, pointer)
                                     : driver->mem_alloc_managed(pointer, size, kind->flags);
}

const char *kind_call(const struct pool_kind *kind) {
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
