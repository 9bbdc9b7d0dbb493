/* Memory pools between processes. A pool's descriptor says whose it is; whoever imports it opens
 * the memory behind that process's device, as cuIpcOpenMemHandle does, and keeps it open. */
#include "address_space.h"
#include "context.h"
#include "lock.h"
#include "mempool.h"
#include "settings.h"
#include "shareable.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The contents of a CUmemPoolPtrExportData. */
struct pointer_data {
    uint64_t magic;
    uint64_t pool; /* its id in the process */
    uint64_t offset, size;
    int32_t process;
};

_Static_assert(sizeof(struct pointer_data) <= sizeof(CUmemPoolPtrExportData), "it must fit");

static const uint64_t pointer_magic = 0x72746e696f706d69;

/* Whether the type is one that pools are shared by here. */
static CUresult check_type(CUmemAllocationHandleType type, unsigned long long flags) {
    if (flags != 0 || type == CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
               ? CUDA_SUCCESS
               : entry_not_simulated("handles other than file descriptors");
}

static CUresult export_pool(CUmemoryPool pool, void *out) {
    CUresult result;
    int file;

    if (!mempool_known(pool) || !pool->can_be_shared)
        return CUDA_ERROR_INVALID_VALUE;
    file = shareable_make(&(struct shareable){.kind = SHAREABLE_POOL,
                                              .device = pool->device,
                                              .process = (int32_t)getpid(),
                                              .file = address_space_file(pool->device),
                                              .id = pool->id});
    if (file < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = shareable_give(file, out);
    close(file);
    return result;
}

SIM_EXPORT CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool pool,
                                                     CUmemAllocationHandleType type,
                                                     unsigned long long flags) {
    CUresult result;

    ENTER(cuMemPoolExportToShareableHandle);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_type(type, flags);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = export_pool(pool, out);
    sim_unlock();
    return result;
}

static CUresult import_pool(int descriptor, CUmemoryPool *out) {
    struct shareable what;
    char path[64];
    int file = shareable_open(descriptor, SHAREABLE_POOL, &what);

    if (file < 0)
        return CUDA_ERROR_INVALID_VALUE;
    close(file);
    if (device_check(what.device) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)what.process, (int)what.file);
    file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return CUDA_ERROR_INVALID_VALUE; /* that process is gone, or another user's */
    *out = mempool_create(what.device, false);
    (*out)->imported = true;
    (*out)->process = what.process;
    (*out)->id = what.id;
    (*out)->file = file;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *descriptor,
                                                       CUmemAllocationHandleType type,
                                                       unsigned long long flags) {
    CUresult result;

    ENTER(cuMemPoolImportFromShareableHandle);
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (!settings()->memory_pools)
        return CUDA_ERROR_NOT_SUPPORTED;
    result = check_type(type, flags);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = import_pool((int)(intptr_t)descriptor, pool);
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *out, CUdeviceptr pointer) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct pointer_data data;
    struct block *block;

    ENTER(cuMemPoolExportPointer);
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memset(&data, 0, sizeof data);
    memset(out, 0, sizeof *out);
    sim_lock();
    block = memory_at(pointer);
    if (block != NULL && block->kind == MEMORY_POOL && !block->freeing && block->pool != NULL &&
        block->pool->can_be_shared) {
        data.magic = pointer_magic;
        data.pool = block->pool->id;
        data.offset = block->address - address_space_base(block->device);
        data.size = block->size;
        data.process = (int32_t)getpid();
        memcpy(out, &data, sizeof data);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

static CUresult import_pointer(struct CUctx_st *context, struct CUmemPoolHandle_st *pool,
                               const struct pointer_data *data, CUdeviceptr *out) {
    struct block *block;

    if (context->device != pool->device)
        return entry_not_simulated("memory of a pool of another device than the context's");
    block = memory_import_file(context, pool->file, data->offset, data->size);
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->pool = pool;
    pool->used += data->size;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    *out = block->address;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool,
                                           CUmemPoolPtrExportData *given) {
    struct pointer_data data;
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuMemPoolImportPointer);
    if (pointer == NULL || given == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&data, given, sizeof data);
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS &&
        (!mempool_known(pool) || !pool->imported || data.magic != pointer_magic ||
         data.pool != pool->id || data.process != pool->process))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result = import_pointer(context_root(context), pool, &data, pointer);
    sim_unlock();
    return result;
}
