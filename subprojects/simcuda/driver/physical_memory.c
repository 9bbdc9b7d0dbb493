#include "physical_memory.h"

#include "address_space.h"
#include "allocate.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "settings.h"
#include "shareable.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const unsigned int posix = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static struct physical *physicals; /* by handle */

struct physical *physical_find(CUmemGenericAllocationHandle handle) {
    sim_check_held();
    struct physical *self = (struct physical *)(uintptr_t)handle, *physical;

    HASH_FIND(by_handle, physicals, &self, sizeof(void *), physical);
    return physical;
}

void physical_drop_if_unused(struct physical *physical, uint64_t *cost_ns) {
    sim_check_held();
    size_t pages = physical->size / memory_page;

    if (physical->references != 0 || physical->mappings != 0)
        return;
    if (physical->home != 0)
        memory_give_pages(physical->properties.location.id, physical->home, pages);
    if (physical->file >= 0)
        close(physical->file);
    *cost_ns += settings()->create_ns + pages * settings()->page_ns;
    HASH_DELETE(by_handle, physicals, physical);
    free(physical);
}

int physical_file(const struct physical *physical, uint64_t *offset) {
    sim_check_held();
    CUdevice device = physical->properties.location.id;

    *offset = physical->file >= 0 ? 0 : physical->home - address_space_base(device);
    return physical->file >= 0 ? physical->file : address_space_file(device);
}

size_t physical_backed(void) {
    sim_check_held();
    struct physical *physical, *next;
    struct stat status;
    size_t pages = 0;

    HASH_ITER (by_handle, physicals, physical, next)
        if (physical->home != 0 && physical->file >= 0 && fstat(physical->file, &status) == 0)
            pages += (size_t)status.st_blocks / (4096 / 512);
    return pages;
}

/* --- entry points --- */

static CUresult check_properties(const CUmemAllocationProp *properties) {
    if (properties == NULL || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return entry_not_simulated("host memory");
    if (((unsigned int)properties->requestedHandleTypes & ~posix) != 0)
        return entry_not_simulated("handles other than file descriptors");
    return device_check(properties->location.id);
}

static struct physical *add(const CUmemAllocationProp *properties, size_t size, CUdeviceptr home,
                            int file) {
    struct physical *physical = allocate_zeroed(sizeof *physical);

    physical->properties = *properties;
    physical->home = home;
    physical->file = file;
    physical->size = size;
    physical->references = 1;
    physical->self = physical;
    HASH_ADD(by_handle, physicals, self, sizeof(void *), physical);
    return physical;
}

static CUresult create(size_t size, const CUmemAllocationProp *properties,
                       CUmemGenericAllocationHandle *handle) {
    CUdevice device = properties->location.id;
    CUdeviceptr home;
    int file = -1;

    if (!memory_take_pages(device, size / memory_page, &home))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) {
        file = shareable_make(&(struct shareable){
            .kind = SHAREABLE_MEMORY, .device = device, .size = size, .process = (int)getpid()});
        if (file < 0) {
            memory_give_pages(device, home, size / memory_page);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    *handle = (uintptr_t)add(properties, size, home, file);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                                const CUmemAllocationProp *properties, unsigned long long flags) {
    CUresult result;

    ENTER(cuMemCreate);
    if (handle == NULL || size == 0 || size % memory_page != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = check_properties(properties);
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    result = create(size, properties, handle);
    sim_unlock();
    cost_spend(settings()->create_ns +
               (result == CUDA_SUCCESS ? size / memory_page * settings()->page_ns : 0));
    return result;
}

SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct physical *physical;
    uint64_t cost_ns = 0;

    ENTER(cuMemRelease);
    sim_lock();
    physical = physical_find(handle);
    if (physical != NULL && physical->references != 0) {
        physical->references--;
        physical_drop_if_unused(physical, &cost_ns);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    cost_spend(cost_ns);
    return result;
}

SIM_EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity,
                                                  const CUmemAllocationProp *properties,
                                                  CUmemAllocationGranularity_flags option) {
    ENTER(cuMemGetAllocationGranularity);
    if (granularity == NULL || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = memory_page;
    return check_properties(properties);
}

SIM_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                           CUmemGenericAllocationHandle handle) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    ENTER(cuMemGetAllocationPropertiesFromHandle);
    if (properties == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    if (physical_find(handle) != NULL) {
        *properties = physical_find(handle)->properties;
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

/* --- between processes --- */

static CUresult export_memory(const struct physical *physical, void *out) {
    if (physical == NULL || physical->file < 0)
        return CUDA_ERROR_INVALID_VALUE; /* no handle, or one that was not made for it */
    return shareable_give(physical->file, out);
}

SIM_EXPORT CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                                 CUmemAllocationHandleType type,
                                                 unsigned long long flags) {
    CUresult result;

    ENTER(cuMemExportToShareableHandle);
    if (out == NULL || flags != 0 || type == CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned int)type != posix)
        return entry_not_simulated("handles other than file descriptors");
    sim_lock();
    result = export_memory(physical_find(handle), out);
    sim_unlock();
    return result;
}

/* The memory stays its creator's: it takes none of this process's device. */
static CUresult import(int descriptor, CUmemGenericAllocationHandle *handle) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                      .requestedHandleTypes =
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    struct shareable what;
    int file = shareable_open(descriptor, SHAREABLE_MEMORY, &what);

    if (file < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(what.device) != CUDA_SUCCESS) {
        close(file);
        return CUDA_ERROR_NOT_SUPPORTED; /* "if the current process cannot support the memory" */
    }
    properties.location.id = what.device;
    *handle = (uintptr_t)add(&properties, what.size, 0, file);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                   void *descriptor,
                                                   CUmemAllocationHandleType type) {
    CUresult result;

    ENTER(cuMemImportFromShareableHandle);
    if (handle == NULL || type == CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned int)type != posix)
        return entry_not_simulated("handles other than file descriptors");
    sim_lock();
    result = import((int)(intptr_t)descriptor, handle);
    sim_unlock();
    cost_spend(settings()->create_ns);
    return result;
}
