/* Kinds of memory: which functions of the driver's a block comes from, and how it is kept. */
#include "pool/internal.h"

const struct pool_kind kind_device = {.memory = POOL_DEVICE};

CUresult kind_allocate_host(const struct driver *driver, unsigned int flags, size_t size,
                            CUdeviceptr *pointer) {
    void *memory = NULL;
    CUresult result = flags & POOL_HOST_PLAIN ? driver->mem_alloc_host(&memory, size)
                                              : driver->mem_host_alloc(&memory, size, flags);
    if (result == CUDA_SUCCESS)
        *pointer = (CUdeviceptr)(uintptr_t)memory;
    return result;
}

const char *kind_call(const struct pool_kind *kind) {
    if (kind->memory == POOL_DEVICE)
        return "cuMemAlloc";
    return kind->flags & POOL_HOST_PLAIN ? "cuMemAllocHost" : "cuMemHostAlloc";
}

const struct policy *kind_policy(const struct pool *pool, const struct pool_kind *kind) {
    return kind->memory == POOL_HOST ? &policy_host : pool->policy;
}
