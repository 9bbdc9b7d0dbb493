/* The entry points that allocate, free and describe device, host and managed memory. */
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "graph_memory.h"
#include "lock.h"
#include "memory.h"
#include "mempool.h"
#include "settings.h"
#include "stream.h"

#include <sys/mman.h>
#include <unistd.h>

/* The current context, when an unsafe call may be made in it now. [capture:unsafe-alloc] cuda.h
 * 15442; [capture:unsafe-free] pytorch#159594 */
static CUresult begin_unsafe(struct CUctx_st **context) {
    CUresult result = context_current(context);

    return result == CUDA_SUCCESS ? capture_check_unsafe() : result;
}

/* [wait:alloc-does-not] cupy#2898 */
static CUresult allocate(CUdeviceptr *pointer, size_t size, uintptr_t site) {
    struct CUctx_st *context;
    struct block *block;
    uint64_t cost_ns = 0;
    CUresult result;

    sim_lock();
    result = begin_unsafe(&context);
    if (result == CUDA_SUCCESS)
        result = memory_allocate(context, size, MEMORY_DEVICE, site, &block, &cost_ns);
    if (result == CUDA_SUCCESS)
        *pointer = block->address;
    sim_unlock();
    cost_spend(cost_ns);
    return result;
}

SIM_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) {
    ENTER(cuMemAlloc_v2);
    if (pointer == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(pointer, size, CALLER);
}

SIM_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width,
                                       size_t height, unsigned int element) {
    size_t row = (width + MEMORY_GRANULE - 1) / MEMORY_GRANULE * MEMORY_GRANULE;
    CUresult result;

    ENTER(cuMemAllocPitch_v2);
    if (pointer == NULL || pitch == NULL || width == 0 || height == 0 || row < width ||
        row > SIZE_MAX / height || (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    result = allocate(pointer, row * height, CALLER);
    if (result == CUDA_SUCCESS)
        *pitch = row;
    return result;
}

static CUresult free_graph_memory(struct block *block) {
    struct op *op = graph_memory_free(block);

    if (op == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    op_drop(op);
    return CUDA_SUCCESS;
}

/* Waits for all work of the owning context, non-blocking streams included: [wait:free] Cytnx#850,
 * cuda.h 8684; [wait:free-host] nccl#48. Not for stream-ordered memory: [wait:free-pool] cuda.h
 * 8680. */
static CUresult wait_and_release(struct block *block, uintptr_t site, uint64_t *cost_ns) {
    CUdeviceptr pointer = block->address;
    CUresult result = CUDA_SUCCESS;

    block->freeing = true; /* a second free fails from here on, as it would natively */
    if (block->kind != MEMORY_POOL)
        result = context_wait(block->context);
    if (memory_at(pointer) == block) /* the context may have been destroyed meanwhile */
        memory_release(block, &host_clock, site, cost_ns);
    return result;
}

static CUresult free_block(CUdeviceptr pointer, bool host, uintptr_t site) {
    struct CUctx_st *context;
    struct block *block;
    uint64_t cost_ns = 0;
    CUresult result;

    sim_lock();
    result = begin_unsafe(&context);
    if (result == CUDA_SUCCESS && pointer != 0) {
        block = memory_at(pointer);
        if (block == NULL || block->freeing || block->of_object ||
            host != (block->kind == MEMORY_HOST) ||
            (block->kind == MEMORY_IMPORTED && !block->external && !mempool_imported(block)) ||
            block->kind == MEMORY_REGISTERED || block->kind == MEMORY_MAPPED)
            result = CUDA_ERROR_INVALID_VALUE;
        else if (block->kind == MEMORY_GRAPH)
            result = free_graph_memory(block);
        else
            result = wait_and_release(block, site, &cost_ns);
    }
    sim_unlock();
    cost_spend(cost_ns);
    return result;
}

SIM_EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
    ENTER(cuMemFree_v2);
    return free_block(pointer, false, CALLER);
}

static CUresult get_info(size_t *available, size_t *total) {
    struct CUctx_st *context;
    CUresult result;

    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        *available = memory_available(context->device);
        *available -= *available < settings()->page_cache ? *available : settings()->page_cache;
        *total = memory_capacity(context->device);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    ENTER(cuMemGetInfo_v2);
    if (available == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return get_info(available, total);
}

SIM_EXPORT size_t simcuda_available(void) {
    size_t available = 0, total;

    return get_info(&available, &total) == CUDA_SUCCESS ? available : 0;
}

SIM_EXPORT CUresult cuMemGetInfo(unsigned int *available, unsigned int *total) {
    size_t free_bytes, total_bytes;
    CUresult result;

    ENTER(cuMemGetInfo);
    if (available == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = get_info(&free_bytes, &total_bytes);
    if (result == CUDA_SUCCESS) {
        *available = free_bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)free_bytes;
        *total = total_bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)total_bytes;
    }
    return result;
}

SIM_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    ENTER(cuMemGetAddressRange_v2);
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        block = memory_containing(pointer);
        if (block == NULL || block->freeing)
            result = CUDA_ERROR_NOT_FOUND;
        if (result == CUDA_SUCCESS && base != NULL)
            *base = block->address;
        if (result == CUDA_SUCCESS && size != NULL)
            *size = block->size;
    }
    sim_unlock();
    return result;
}

/* --- memory that the CPU may touch --- */

static CUresult allocate_visible(CUdeviceptr *pointer, size_t size, enum memory_kind kind,
                                 unsigned int flags, uintptr_t site) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    sim_lock();
    result = begin_unsafe(&context);
    if (result == CUDA_SUCCESS)
        result = memory_allocate_visible(context, size, kind, site, &block);
    if (result == CUDA_SUCCESS) {
        block->flags = flags;
        *pointer = block->address;
    }
    sim_unlock();
    cost_spend(settings()->host_alloc_ns);
    return result;
}

static CUresult allocate_host(void **memory, size_t size, unsigned int flags, uintptr_t site) {
    CUdeviceptr pointer;
    CUresult result;

    if (memory == NULL || (flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                                     CU_MEMHOSTALLOC_WRITECOMBINED)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = allocate_visible(&pointer, size, MEMORY_HOST, flags, site);
    if (result == CUDA_SUCCESS)
        *memory = (void *)(uintptr_t)pointer;
    return result;
}

SIM_EXPORT CUresult cuMemHostAlloc(void **memory, size_t size, unsigned int flags) {
    ENTER(cuMemHostAlloc);
    return allocate_host(memory, size, flags, CALLER);
}

SIM_EXPORT CUresult cuMemAllocHost_v2(void **memory, size_t size) {
    ENTER(cuMemAllocHost_v2);
    return allocate_host(memory, size, 0, CALLER);
}

SIM_EXPORT CUresult cuMemAllocHost(void **memory, unsigned int size) {
    ENTER(cuMemAllocHost);
    return allocate_host(memory, size, 0, CALLER);
}

SIM_EXPORT CUresult cuMemFreeHost(void *memory) {
    ENTER(cuMemFreeHost);
    return free_block((CUdeviceptr)(uintptr_t)memory, true, CALLER);
}

SIM_EXPORT CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned int flags) {
    ENTER(cuMemAllocManaged);
    if (pointer == NULL || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    return allocate_visible(pointer, size, MEMORY_MANAGED, flags, CALLER);
}

SIM_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pointer, void *host,
                                                 unsigned int flags) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    ENTER(cuMemHostGetDevicePointer_v2);
    if (pointer == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        block = memory_containing((CUdeviceptr)(uintptr_t)host);
        if (block == NULL || (block->kind != MEMORY_HOST && block->kind != MEMORY_REGISTERED))
            result = CUDA_ERROR_INVALID_VALUE;
        else
            *pointer = (CUdeviceptr)(uintptr_t)host;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *host) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    ENTER(cuMemHostGetFlags);
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        block = memory_containing((CUdeviceptr)(uintptr_t)host);
        if (block == NULL || block->kind != MEMORY_HOST)
            result = CUDA_ERROR_INVALID_VALUE;
        else /* with unified addresses all pinned memory is mapped */
            *flags = block->flags | CU_MEMHOSTALLOC_DEVICEMAP;
    }
    sim_unlock();
    return result;
}

/* Whether all of it is memory of the process. */
static bool is_mapped(const void *host, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (uintptr_t)host % page;

    if (size + before < size || (uintptr_t)host + size < size)
        return false;
    return msync((char *)host - before, size + before, MS_ASYNC) == 0; /* which only looks */
}

static CUresult host_register(void *host, size_t size, unsigned int flags, uintptr_t site) {
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)host;
    struct CUctx_st *context;
    CUresult result;

    if (host == NULL || size == 0 || !is_mapped(host, size) ||
        (flags & ~(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                   CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = begin_unsafe(&context);
    if (result == CUDA_SUCCESS && memory_overlaps(address, size))
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (result == CUDA_SUCCESS && memory_is_device_range(address, size))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && !memory_can_pin(size))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result == CUDA_SUCCESS)
        memory_adopt(context, host, size, size, MEMORY_REGISTERED, site)->flags = flags;
    sim_unlock();
    cost_spend(settings()->host_alloc_ns);
    return result;
}

SIM_EXPORT CUresult cuMemHostRegister_v2(void *host, size_t size, unsigned int flags) {
    ENTER(cuMemHostRegister_v2);
    return host_register(host, size, flags, CALLER);
}

SIM_EXPORT CUresult cuMemHostRegister(void *host, size_t size, unsigned int flags) {
    ENTER(cuMemHostRegister);
    return host_register(host, size, flags, CALLER);
}

SIM_EXPORT CUresult cuMemHostUnregister(void *host) {
    struct CUctx_st *context;
    struct block *block;
    uint64_t cost_ns = 0;
    CUresult result;

    ENTER(cuMemHostUnregister);
    sim_lock();
    result = begin_unsafe(&context);
    if (result == CUDA_SUCCESS) {
        block = memory_at((CUdeviceptr)(uintptr_t)host);
        if (block == NULL || block->kind != MEMORY_REGISTERED || block->freeing) {
            result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        } else {
            block->freeing = true;
            result = context_wait(block->context); /* [wait:host-unregister] assumed */
            if (memory_at((CUdeviceptr)(uintptr_t)host) == block) /* its context may have ended */
                memory_release(block, &host_clock, 0, &cost_ns);
        }
    }
    sim_unlock();
    return result;
}
