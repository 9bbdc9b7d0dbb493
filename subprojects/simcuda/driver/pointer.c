/* What can be asked about a pointer. */
#include "context.h"
#include "lock.h"
#include "memory.h"
#include "virtual_memory.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static CUmemorytype memory_type(const struct block *block) {
    return block->kind == MEMORY_HOST || block->kind == MEMORY_REGISTERED ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_DEVICE;
}

/* Writes one attribute of the block that holds `pointer`. */
static CUresult get(void *data, CUpointer_attribute attribute, const struct block *block,
                    CUdeviceptr pointer) {
    bool visible = block->shadow == (unsigned char *)(uintptr_t)block->address;
    char what[32];

    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = block->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)data = memory_type(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!visible)
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        if (block->kind != MEMORY_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        *(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS *)data =
            (CUDA_POINTER_ATTRIBUTE_P2P_TOKENS){.p2pToken = block->id, .vaSpaceToken = 1};
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)data = block->sync_memops;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *(unsigned long long *)data = block->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(int *)data = block->kind == MEMORY_MANAGED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = block->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = block->kind == MEMORY_DEVICE && !block->of_object;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = block->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = block->size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = virtual_memory_handle_types(block->address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = block->pool;
        return CUDA_SUCCESS;
    default:
        snprintf(what, sizeof what, "attribute %d", (int)attribute);
        return entry_not_simulated(what);
    }
}

static struct block *find(CUdeviceptr pointer) {
    struct block *block = memory_containing(pointer);

    return block != NULL && !block->freeing ? block : NULL;
}

SIM_EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                          CUdeviceptr pointer) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    ENTER(cuPointerGetAttribute);
    if (data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        block = find(pointer);
        result = block != NULL ? get(data, attribute, block, pointer) : CUDA_ERROR_INVALID_VALUE;
    }
    sim_unlock();
    return result;
}

/* How many bytes `get` writes, to zero them for a pointer that CUDA does not know. */
static size_t attribute_size(CUpointer_attribute attribute) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return sizeof(int);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
    default:
        return sizeof(void *);
    }
}

/* An unknown pointer is no error here: its attributes are null, its device ordinal is -2
 * (cuPointerGetAttributes' documentation). */
SIM_EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                           void **data, CUdeviceptr pointer) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    ENTER(cuPointerGetAttributes);
    if (attributes == NULL || data == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    block = find(pointer);
    for (unsigned int i = 0; result == CUDA_SUCCESS && i < count; i++) {
        if (data[i] == NULL)
            result = CUDA_ERROR_INVALID_VALUE;
        else if (block == NULL || get(data[i], attributes[i], block, pointer) != CUDA_SUCCESS)
            memset(data[i], 0, attribute_size(attributes[i]));
        if (result == CUDA_SUCCESS && block == NULL &&
            attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)data[i] = -2;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                          CUdeviceptr pointer) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    ENTER(cuPointerSetAttribute);
    if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        block = find(pointer);
        if (block == NULL || block->kind == MEMORY_HOST || block->kind == MEMORY_REGISTERED)
            result = CUDA_ERROR_INVALID_VALUE;
        else
            block->sync_memops = *(const int *)value != 0;
    }
    sim_unlock();
    return result;
}

/* A file that stands for [pointer, pointer + size) of `block`; nothing can be read through it. */
static CUresult export_range(int *file, const struct block *block, CUdeviceptr pointer,
                             size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (pointer % page != 0 || size % page != 0 || size == 0 ||
        size > block->extent - (pointer - block->address))
        return CUDA_ERROR_INVALID_VALUE;
    if (block->kind != MEMORY_DEVICE && block->kind != MEMORY_MAPPED)
        return CUDA_ERROR_NOT_SUPPORTED; /* the documentation names these two */
    *file = memfd_create("simcuda dma-buf", MFD_CLOEXEC);
    if (*file < 0 || ftruncate(*file, (off_t)size) != 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr pointer, size_t size,
                                                  CUmemRangeHandleType type,
                                                  unsigned long long flags) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result;

    ENTER(cuMemGetHandleForAddressRange);
    if (handle == NULL || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS) {
        block = find(pointer);
        result =
            block != NULL ? export_range(handle, block, pointer, size) : CUDA_ERROR_INVALID_VALUE;
    }
    sim_unlock();
    return result;
}
