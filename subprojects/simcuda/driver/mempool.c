/* Stream-ordered allocation: cuMemAllocAsync, cuMemFreeAsync and memory pools.
 *
 * Memory freed in a stream returns to its device as soon as the stream gets there, but for what the
 * pool's release threshold lets it keep: that is a number of pages, which serve any later
 * allocation from the same pool, as pages that are mapped anew do. */
#include "mempool.h"
#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "graph_memory.h"
#include "hazard.h"
#include "lock.h"
#include "memory.h"
#include "object_memory.h"
#include "settings.h"
#include "stream.h"

#include <stdlib.h>
#include <unistd.h>
#include <utlist.h>

static struct CUmemPoolHandle_st *pools;
static struct CUmemPoolHandle_st *default_pools[DEVICES_MAX];
static struct CUmemPoolHandle_st *current_pools[DEVICES_MAX];

struct CUmemPoolHandle_st *mempool_create(CUdevice device, bool by_default) {
    sim_check_held();
    static uint64_t last_id;
    struct CUmemPoolHandle_st *pool = allocate_zeroed(sizeof *pool);

    pool->device = device;
    pool->by_default = by_default;
    pool->file = -1;
    pool->id = ++last_id;
    for (int i = 0; i < 3; i++)
        pool->reuse[i] = 1;
    LL_PREPEND(pools, pool);
    return pool;
}

static struct CUmemPoolHandle_st *default_pool(CUdevice device) {
    if (default_pools[device] == NULL)
        default_pools[device] = mempool_create(device, true);
    return default_pools[device];
}

static struct CUmemPoolHandle_st *current_pool(CUdevice device) {
    return current_pools[device] != NULL ? current_pools[device] : default_pool(device);
}

bool mempool_known(CUmemoryPool handle) {
    sim_check_held();
    struct CUmemPoolHandle_st *pool;

    LL_FOREACH(pools, pool)
    if (pool == handle)
        return true;
    return false;
}

bool mempool_imported(const struct block *block) {
    sim_check_held();
    return block->kind == MEMORY_IMPORTED && block->export_serial == 0 && !block->external;
}

static size_t pages(cuuint64_t bytes) {
    return bytes / memory_page + (bytes % memory_page != 0);
}

static cuuint64_t reserved(const struct CUmemPoolHandle_st *pool) {
    return (pages(pool->used) + pool->kept) * memory_page;
}

/* As if the blocks filled pages one after the other. */
static void keep(struct CUmemPoolHandle_st *pool, size_t wanted) {
    size_t allowed = pool->threshold / memory_page, in_use = pages(pool->used);

    if (wanted > (allowed > in_use ? allowed - in_use : 0))
        wanted = allowed > in_use ? allowed - in_use : 0;
    if (pool->imported)
        return; /* whose memory it is keeps it */
    if (wanted < pool->kept)
        memory_give_unaddressed(pool->device, pool->kept - wanted);
    else if (wanted > pool->kept && !memory_take_unaddressed(pool->device, wanted - pool->kept))
        return;
    pool->kept = wanted;
}

void mempool_block_ended(struct CUmemPoolHandle_st *pool, size_t size) {
    sim_check_held();
    size_t before = pages(pool->used);

    pool->used -= size;
    keep(pool, pool->kept + before - pages(pool->used));
}

/* The memory exists from the call on, not from when the stream gets there: [order:alloc-async]
 * assumed. */
static bool allocate_in(struct CUctx_st *context, struct CUmemPoolHandle_st *pool, size_t size,
                        uintptr_t site, CUresult *result, struct block **block) {
    size_t more = pages(pool->used + size) - pages(pool->used), kept = pool->kept;
    uint64_t unspent;

    keep(pool, kept > more ? kept - more : 0);
    *result = memory_allocate(context, size, MEMORY_POOL, site, block, &unspent);
    if (*result != CUDA_SUCCESS) {
        keep(pool, kept);
        return false;
    }
    (*block)->pool = pool;
    pool->used += size;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    return true;
}

/* [capture:memory-nodes] cuda.h 13333, 13307 */
static CUresult capture_allocation(CUdeviceptr *pointer, size_t size, struct CUstream_st *stream,
                                   uintptr_t site) {
    struct CUctx_st *context = context_root(stream->context);
    CUdeviceptr address;
    struct op *op;
    CUresult result;

    if (size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    op = graph_memory_allocate(capture_graph(stream), context->device, size, site, &address);
    if (op == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = capture_add(stream, op);
    op_drop(op);
    if (result == CUDA_SUCCESS)
        *pointer = address;
    return result;
}

static CUresult capture_free(struct block *block, struct CUstream_st *stream) {
    struct op *op = graph_memory_free_node(capture_graph(stream), block);
    CUresult result;

    if (op == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = capture_add(stream, op);
    op_drop(op);
    return result;
}

/* What an allocation asks for. `context`: the stream's, once it was found. */
struct request {
    size_t size;
    CUmemoryPool pool; /* NULL: the device's current one */
    CUstream stream;
    enum null_stream null_stream;
    uintptr_t site;
    struct CUctx_st *context;
};

static CUresult allocate_now(CUdeviceptr *pointer, struct request *request) {
    struct CUmemPoolHandle_st *pool = request->pool;
    struct CUstream_st *stream;
    struct block *block;
    CUresult result = stream_current(request->stream, request->null_stream, &stream);

    if (result == CUDA_SUCCESS && pool != NULL && (!mempool_known(pool) || pool->imported))
        result = CUDA_ERROR_INVALID_VALUE; /* an imported one gives no new memory */
    if (result == CUDA_SUCCESS)
        result = capture_check_legacy(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (stream->capture != NULL)
        return capture_allocation(pointer, request->size, stream, request->site);
    request->context = context_root(stream->context);
    if (pool == NULL)
        pool = current_pool(request->context->device);
    if (allocate_in(request->context, pool, request->size, request->site, &result, &block))
        *pointer = block->address;
    return result;
}

static CUresult allocate(CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream,
                         enum null_stream null_stream, uintptr_t site) {
    struct request request = {size, pool, stream, null_stream, site, NULL};
    CUresult result;

    if (pointer == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!settings()->memory_pools)
        return CUDA_ERROR_NOT_SUPPORTED;
    cost_spend(settings()->alloc_async_ns);
    sim_lock();
    result = allocate_now(pointer, &request);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && request.context != NULL) {
        context_wait(request.context); /* for queued frees; [wait:alloc-async-full] assumed */
        result = allocate_now(pointer, &request); /* of what is still there then */
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream stream) {
    ENTER(cuMemAllocAsync);
    return allocate(pointer, size, NULL, stream, NULL_IS_LEGACY, CALLER);
}

SIM_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t size, CUstream stream) {
    ENTER(cuMemAllocAsync_ptsz);
    return allocate(pointer, size, NULL, stream, NULL_IS_PER_THREAD, CALLER);
}

SIM_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, CUmemoryPool pool,
                                            CUstream stream) {
    ENTER(cuMemAllocFromPoolAsync);
    return pool == NULL ? CUDA_ERROR_INVALID_VALUE
                        : allocate(pointer, size, pool, stream, NULL_IS_LEGACY, CALLER);
}

SIM_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t size,
                                                 CUmemoryPool pool, CUstream stream) {
    ENTER(cuMemAllocFromPoolAsync_ptsz);
    return pool == NULL ? CUDA_ERROR_INVALID_VALUE
                        : allocate(pointer, size, pool, stream, NULL_IS_PER_THREAD, CALLER);
}

/* [order:free-async] cuda.h 13302 */
static CUresult run_free(struct op *op) {
    struct block *block;
    uint64_t unspent;

    sim_lock();
    block = memory_at(op->as.freed.address);
    if (block != NULL && block->freeing)
        memory_release(block, &op->as.freed.order, op->as.freed.site, &unspent);
    sim_unlock();
    return CUDA_SUCCESS;
}

static void dispose_free(struct op *op) {
    vclock_clear(&op->as.freed.order);
}

static CUresult submit_free(struct block *block, struct CUstream_st *stream, uintptr_t site) {
    bool of_graph = block->kind == MEMORY_GRAPH;
    struct work *work;
    struct op *op;
    CUresult result;

    op = of_graph ? graph_memory_free(block) : op_create("cuMemFreeAsync", run_free);
    if (op == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!of_graph) {
        op->dispose = dispose_free;
        op->as.freed.address = block->address;
        op->as.freed.site = site;
        block->freeing = true;
    }
    result = stream_submit(stream, op, NULL, &work);
    if (of_graph)
        graph_memory_submitted(op, &work->clock);
    else
        vclock_join(&op->as.freed.order, &work->clock);
    op_drop(op);
    if (!work_run_if_ready(work)) /* a stream that is idle gets there at once */
        stream_go(stream);
    work_drop(work);
    return result;
}

static CUresult free_in(CUdeviceptr pointer, CUstream handle, enum null_stream null_stream,
                        uintptr_t site) {
    struct CUstream_st *stream;
    struct block *block;
    CUresult result;

    cost_spend(settings()->alloc_async_ns);
    sim_lock();
    result = stream_current(handle, null_stream, &stream);
    if (result == CUDA_SUCCESS && pointer != 0) {
        block = memory_at(pointer);
        if (block == NULL || block->freeing || block->of_object ||
            (block->kind != MEMORY_POOL && block->kind != MEMORY_DEVICE &&
             block->kind != MEMORY_GRAPH && !mempool_imported(block)))
            result = CUDA_ERROR_INVALID_VALUE;
        else
            result = capture_check_legacy(stream);
        if (result == CUDA_SUCCESS && stream->capture != NULL)
            result = capture_free(block, stream);
        else if (result == CUDA_SUCCESS)
            result = submit_free(block, stream, site);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    ENTER(cuMemFreeAsync);
    return free_in(pointer, stream, NULL_IS_LEGACY, CALLER);
}

SIM_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) {
    ENTER(cuMemFreeAsync_ptsz);
    return free_in(pointer, stream, NULL_IS_PER_THREAD, CALLER);
}

/* --- pools --- */

static CUresult get_pool(CUmemoryPool *pool, CUdevice device,
                         struct CUmemPoolHandle_st *(*which)(CUdevice)) {
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!settings()->memory_pools)
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_lock();
    *pool = which(device);
    sim_unlock();
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    ENTER(cuDeviceGetDefaultMemPool);
    return get_pool(pool, device, default_pool);
}

SIM_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) {
    ENTER(cuDeviceGetMemPool);
    return get_pool(pool, device, current_pool);
}

static CUresult set_pool(CUdevice device, CUmemoryPool pool) {
    CUresult result = CUDA_SUCCESS;

    if (device_check(device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    if (!mempool_known(pool) || pool->device != device || pool->imported)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        current_pools[device] = pool;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    ENTER(cuDeviceSetMemPool);
    return set_pool(device, pool);
}

/* Pools of the host and of managed memory are not simulated. */
static CUresult check_location(const CUmemLocation *location, CUmemAllocationType type) {
    static const int managed = 2; /* CU_MEM_ALLOCATION_TYPE_MANAGED, since 13.0 */

    if (location == NULL || ((int)type != CU_MEM_ALLOCATION_TYPE_PINNED && (int)type != managed))
        return CUDA_ERROR_INVALID_VALUE;
    switch ((int)location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        if (device_check(location->id) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_DEVICE;
        return (int)type == managed ? entry_not_simulated("a pool of managed memory")
                                    : CUDA_SUCCESS;
    case 0: /* CU_MEM_LOCATION_TYPE_NONE */
        return (int)type == managed ? entry_not_simulated("a pool of managed memory")
                                    : CUDA_ERROR_INVALID_VALUE;
    case 2: /* ..._HOST and ..._HOST_NUMA, since 12.2 */
    case 3:
        return entry_not_simulated("a pool of the host");
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

SIM_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                           CUmemAllocationType type) {
    CUresult result;

    ENTER(cuMemGetDefaultMemPool);
    result = check_location(location, type);
    return result == CUDA_SUCCESS ? get_pool(pool, location->id, default_pool) : result;
}

SIM_EXPORT CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                    CUmemAllocationType type) {
    CUresult result;

    ENTER(cuMemGetMemPool);
    result = check_location(location, type);
    return result == CUDA_SUCCESS ? get_pool(pool, location->id, current_pool) : result;
}

SIM_EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                                    CUmemoryPool pool) {
    CUresult result;

    ENTER(cuMemSetMemPool);
    result = check_location(location, type);
    return result == CUDA_SUCCESS ? set_pool(location->id, pool) : result;
}

SIM_EXPORT CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *properties) {
    CUresult result;

    ENTER(cuMemPoolCreate);
    if (pool == NULL || properties == NULL ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!settings()->memory_pools)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (((unsigned int)properties->handleTypes &
         ~(unsigned int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0)
        return entry_not_simulated("handles other than file descriptors");
    if (device_check(properties->location.id) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    result = object_memory_take(properties->location.id);
    if (result == CUDA_SUCCESS) {
        *pool = mempool_create(properties->location.id, false);
        (*pool)->can_be_shared = properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
    }
    sim_unlock();
    return result;
}

/* Memory allocated from the pool stays valid until it is freed. */
SIM_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    CUresult result = CUDA_SUCCESS;

    ENTER(cuMemPoolDestroy);
    sim_lock();
    if (!mempool_known(pool) || pool->by_default) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        for (struct block *block = memory_next(NULL); block != NULL; block = memory_next(block))
            if (block->pool == pool)
                block->pool = NULL;
        if (current_pools[pool->device] == pool)
            current_pools[pool->device] = NULL;
        keep(pool, 0);
        LL_DELETE(pools, pool);
        if (!pool->imported)
            object_memory_give(pool->device);
        if (pool->file >= 0)
            close(pool->file);
        free(pool);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes_to_keep) {
    CUresult result;

    ENTER(cuMemPoolTrimTo);
    sim_lock();
    result = mempool_known(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && bytes_to_keep < reserved(pool)) {
        size_t in_use = pages(pool->used), least = pages(bytes_to_keep);

        keep(pool, least > in_use ? least - in_use : 0);
    }
    sim_unlock();
    return result;
}

static CUresult attribute(struct CUmemPoolHandle_st *pool, CUmemPool_attribute which, void *value,
                          bool set) {
    switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
        int *flag = &pool->reuse[which - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];

        *(set ? flag : (int *)value) = *(set ? (int *)value : flag);
        return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *(set ? &pool->threshold : (cuuint64_t *)value) =
            *(set ? (cuuint64_t *)value : &pool->threshold);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        if (set)
            return CUDA_ERROR_INVALID_VALUE;
        *(cuuint64_t *)value =
            which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? pool->used : reserved(pool);
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        if (set && *(cuuint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE; /* it can only be reset */
        if (set)
            pool->used_high = pool->used;
        else
            *(cuuint64_t *)value = pool->used_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult checked_attribute(CUmemoryPool pool, CUmemPool_attribute which, void *value,
                                  bool set) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    sim_lock();
    if (value != NULL && mempool_known(pool)) {
        result = capture_check_unsafe(); /* [capture:unsafe-pool-attributes] cccl#11360 */
        if (result == CUDA_SUCCESS)
            result = attribute(pool, which, value, set);
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute which,
                                          void *value) {
    ENTER(cuMemPoolSetAttribute);
    return checked_attribute(pool, which, value, true);
}

SIM_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute which,
                                          void *value) {
    ENTER(cuMemPoolGetAttribute);
    return checked_attribute(pool, which, value, false);
}

/* Every device may access every pool: addresses are unified and peers are not fenced off. */
SIM_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map,
                                       size_t count) {
    CUresult result;

    ENTER(cuMemPoolSetAccess);
    sim_lock();
    result = mempool_known(pool) && (map != NULL || count == 0) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
                                       CUmemLocation *location) {
    CUresult result;

    ENTER(cuMemPoolGetAccess);
    sim_lock();
    result = mempool_known(pool) && flags != NULL && location != NULL ? CUDA_SUCCESS
                                                                      : CUDA_ERROR_INVALID_VALUE;
    sim_unlock();
    if (result == CUDA_SUCCESS)
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return result;
}
