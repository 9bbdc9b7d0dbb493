/* Memory from outside of CUDA, by file descriptors. */
#include "allocate.h"
#include "capture.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "settings.h"
#include "shareable.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

/* Buffers that are mapped live on without it. */
struct CUextMemory_st {
    int file;
    size_t size;
    struct CUextMemory_st *next;
};

static struct CUextMemory_st *memories; /* what programs hold handles of */

static bool is_known(CUexternalMemory handle) {
    const struct CUextMemory_st *memory;

    LL_FOREACH(memories, memory)
    if (memory == handle)
        return true;
    return false;
}

static CUresult check_import(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *from) {
    if ((from->flags & ~(unsigned int)CUDA_EXTERNAL_MEMORY_DEDICATED) != 0 || from->size == 0 ||
        (unsigned int)from->type < CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
        (unsigned int)from->type > 9) /* CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD */
        return CUDA_ERROR_INVALID_VALUE;
    return from->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
               ? CUDA_SUCCESS
               : entry_not_simulated("memory other than by opaque file descriptors");
}

/* A descriptor of our own, and how much memory it stands for: all of the file, unless that was
 * exported by cuMemExportToShareableHandle. -1: it is no memory. */
static int open_memory(int descriptor, size_t *size) {
    struct shareable what;
    struct stat status;
    int file = shareable_open(descriptor, SHAREABLE_MEMORY, &what);

    if (file >= 0) {
        *size = what.size;
        return file;
    }
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
        (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDWR)
        return -1;
    *size = (size_t)status.st_size;
    return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

/* The descriptor is the driver's from then on. */
static CUresult import(const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *from, CUexternalMemory *out) {
    size_t size;
    int file = open_memory(from->handle.fd, &size);

    if (file < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    if (from->size > size) {
        close(file);
        return CUDA_ERROR_INVALID_VALUE;
    }
    close(from->handle.fd);
    *out = allocate_zeroed(sizeof **out);
    (*out)->file = file;
    (*out)->size = from->size;
    LL_PREPEND(memories, *out);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuImportExternalMemory(CUexternalMemory *out,
                                           const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *from) {
    struct CUctx_st *context;
    CUresult result;

    ENTER(cuImportExternalMemory);
    if (out == NULL || from == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_import(from);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = context_current(&context);
    if (result == CUDA_SUCCESS)
        result = import(from, out);
    sim_unlock();
    cost_spend(settings()->create_ns);
    return result;
}

static CUresult map(CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer,
                    CUdeviceptr *out) {
    struct CUctx_st *context;
    struct block *block;
    CUresult result = context_current(&context);

    if (result == CUDA_SUCCESS)
        result = capture_check_unsafe();
    if (result == CUDA_SUCCESS && !is_known(memory))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS &&
        (buffer->size > memory->size || buffer->offset > memory->size - buffer->size))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    block = memory_import_file(context_root(context), memory->file, buffer->offset, buffer->size);
    if (block == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->external = true;
    *out = block->address;
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuExternalMemoryGetMappedBuffer(
    CUdeviceptr *out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer) {
    CUresult result;

    ENTER(cuExternalMemoryGetMappedBuffer);
    if (out == NULL || buffer == NULL || buffer->flags != 0 || buffer->size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = map(memory, buffer, out);
    sim_unlock();
    cost_spend(settings()->map_ns);
    return result;
}

SIM_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
    CUresult result = CUDA_ERROR_INVALID_HANDLE;

    ENTER(cuDestroyExternalMemory);
    sim_lock();
    if (is_known(memory)) {
        LL_DELETE(memories, memory);
        close(memory->file);
        free(memory);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}
