#include "sources/kinds.h"

#include "base/lock.h"

#include <stdint.h>

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

bool source_is_hosts(const struct pool_kind *kind) {
    return kind->memory == POOL_HOST ||
           (kind->memory == POOL_MANAGED && kind->flags == CU_MEM_ATTACH_HOST);
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
