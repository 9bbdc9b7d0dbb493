/* Allocations that are no cuMemAlloc: with a pitch, of the host's memory, and of managed memory. */
#include "pool/internal.h"

CUresult pool_malloc_pitch(struct pool *pool, CUdeviceptr *pointer, size_t *pitch, size_t width,
                           size_t height, unsigned int element, const struct call_site *key) {
    struct pitch_request pitched = {pitch, 0, width, height, element};
    struct request request = {.pitch = &pitched};
    if (pointer && pitch)
        return malloc_kind(pool, &kind_device, pointer, &request, key);
    stats_add(STATS_malloc_calls, 1);
    return pool->driver->mem_alloc_pitch(pointer, pitch, width, height, element);
}

CUresult pool_malloc_host(struct pool *pool, void **pointer, size_t bytes, unsigned int flags,
                          const struct call_site *key) {
    static const unsigned int known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                                      CU_MEMHOSTALLOC_WRITECOMBINED | POOL_HOST_PLAIN;
    const struct pool_kind kind = {POOL_HOST, PLANTED(flags_not_in_key) ? 0 : flags};
    CUdeviceptr address = 0;
    CUresult result;
    struct request request = {.bytes = bytes, .size = kind_keeper(pool, &kind)->round(bytes)};
    if (!pointer || !request.size)
        result = flags & POOL_HOST_PLAIN ? pool->driver->mem_alloc_host(pointer, bytes)
                                         : pool->driver->mem_host_alloc(pointer, bytes, flags);
    else if (pool->config.host && !(flags & ~known))
        result = malloc_kind(pool, &kind, &address, &request, key);
    else
        result = malloc_without_context(pool, &kind, &address, bytes, NULL);
    if (result == CUDA_SUCCESS && address)
        *pointer = (void *)(uintptr_t)address;
    return result;
}

CUresult pool_malloc_managed(struct pool *pool, CUdeviceptr *pointer, size_t bytes,
                             unsigned int flags, const struct call_site *key) {
    const struct pool_kind kind = {POOL_MANAGED, flags};
    bool known = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    struct request request = {.bytes = bytes, .size = kind_keeper(pool, &kind)->round(bytes)};
    if (!pointer || !request.size)
        return pool->driver->mem_alloc_managed(pointer, bytes, flags);
    if (pool->config.managed && known)
        return malloc_kind(pool, &kind, pointer, &request, key);
    return malloc_without_context(pool, &kind, pointer, bytes, NULL);
}
