#include "virtual_memory.h"

#include "address_space.h"
#include "allocate.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "object_memory.h"
#include "settings.h"
#include "stream.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

/* Addresses without memory: nobody can touch them. */
struct reservation {
    CUdeviceptr address;
    size_t size;
    void *mapped; /* what munmap takes: alignment makes it begin earlier */
    size_t mapped_size;
    unsigned char *shadow; /* as large: where the CPU reaches what is mapped, side by side */
    struct reservation *next;
};

/* What a CUmemGenericAllocationHandle denotes. Invariant: references + mappings != 0; the memory
 * goes when both are gone. */
struct physical {
    CUmemAllocationProp properties;
    CUdeviceptr home; /* its pages; no program knows these addresses */
    size_t size;
    unsigned int references; /* handles not yet released */
    unsigned int mappings;
    struct physical *next;
};

/* Invariant: lies within one reservation and overlaps no other mapping; its block exists while a
 * device has access. */
struct mapping {
    CUdeviceptr address;
    size_t size;
    struct physical *physical;
    CUmemAccess_flags access[DEVICES_MAX];
    struct mapping *next;
};

static struct reservation *reservations;
static struct physical *physicals;
static struct mapping *mappings;

bool virtual_memory_reserved(CUdeviceptr address, size_t size) {
    struct reservation *reservation;

    LL_FOREACH(reservations, reservation)
    if (address < reservation->address + reservation->size && reservation->address < address + size)
        return true;
    return false;
}

static struct reservation *reservation_around(CUdeviceptr address, size_t size) {
    struct reservation *reservation;

    LL_FOREACH(reservations, reservation)
    if (reservation->address <= address && size <= reservation->size &&
        address - reservation->address <= reservation->size - size)
        return reservation;
    return NULL;
}

static struct physical *find(CUmemGenericAllocationHandle handle) {
    struct physical *physical;

    LL_FOREACH(physicals, physical)
    if ((uintptr_t)physical == handle)
        return physical;
    return NULL;
}

static struct mapping *mapping_at(CUdeviceptr address) {
    struct mapping *mapping;

    LL_FOREACH(mappings, mapping)
    if (mapping->address <= address && address - mapping->address < mapping->size)
        return mapping;
    return NULL;
}

/* Whether whole mappings cover the range, end to end. */
static bool covered(CUdeviceptr address, size_t size) {
    CUdeviceptr at = address;

    while (at < address + size) {
        struct mapping *mapping = mapping_at(at);

        if (mapping == NULL || mapping->address != at)
            return false;
        at += mapping->size;
    }
    return size != 0 && at == address + size;
}

static void drop_if_unused(struct physical *physical, uint64_t *cost_ns) {
    size_t pages = physical->size / memory_page;

    if (physical->references != 0 || physical->mappings != 0)
        return;
    memory_give_pages(physical->properties.location.id, physical->home, pages);
    *cost_ns += settings()->create_ns + pages * settings()->page_ns;
    LL_DELETE(physicals, physical);
    free(physical);
}

/* --- addresses --- */

static CUresult reserve(CUdeviceptr *pointer, size_t size, size_t alignment) {
    struct reservation *reservation;
    size_t room = size + alignment;
    void *mapped = room < size ? MAP_FAILED
                               : mmap(NULL, room, PROT_NONE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mapped == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    reservation = allocate_zeroed(sizeof *reservation);
    reservation->address = ((uintptr_t)mapped + alignment - 1) / alignment * alignment;
    reservation->size = size;
    reservation->shadow =
        mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reservation->shadow == MAP_FAILED) {
        munmap(mapped, room);
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    reservation->mapped = mapped;
    reservation->mapped_size = room;
    LL_PREPEND(reservations, reservation);
    *pointer = reservation->address;
    return CUDA_SUCCESS;
}

/* `hint` is no more than that. */
SIM_EXPORT CUresult cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment,
                                        CUdeviceptr hint, unsigned long long flags) {
    CUresult result;

    ENTER(cuMemAddressReserve);
    (void)hint;
    if (pointer == NULL || size == 0 || size % (size_t)sysconf(_SC_PAGESIZE) != 0 ||
        (alignment & (alignment - 1)) != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = reserve(pointer, size, alignment > memory_page ? alignment : memory_page);
    sim_unlock();
    cost_spend(settings()->reserve_ns);
    return result;
}

SIM_EXPORT CUresult cuMemAddressFree(CUdeviceptr pointer, size_t size) {
    struct reservation *reservation;
    CUresult result = CUDA_SUCCESS;
    struct mapping *mapping;

    ENTER(cuMemAddressFree);
    sim_lock();
    reservation = reservation_around(pointer, size);
    if (reservation == NULL || reservation->address != pointer || reservation->size != size)
        result = CUDA_ERROR_INVALID_VALUE;
    LL_FOREACH(mappings, mapping)
    if (mapping->address < pointer + size && pointer < mapping->address + mapping->size)
        result = CUDA_ERROR_INVALID_VALUE; /* still mapped */
    if (result == CUDA_SUCCESS) {
        munmap(reservation->mapped, reservation->mapped_size);
        munmap(reservation->shadow, reservation->size);
        LL_DELETE(reservations, reservation);
        free(reservation);
    }
    sim_unlock();
    cost_spend(settings()->reserve_ns);
    return result;
}

/* --- memory --- */

static CUresult check_properties(const CUmemAllocationProp *properties) {
    if (properties == NULL || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED; /* host memory, and sharing between processes */
    return device_check(properties->location.id);
}

SIM_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                                const CUmemAllocationProp *properties, unsigned long long flags) {
    CUresult result = check_properties(properties);
    CUdeviceptr home;

    ENTER(cuMemCreate);
    if (handle == NULL || size == 0 || size % memory_page != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    sim_lock();
    if (memory_take_pages(properties->location.id, size / memory_page, &home)) {
        struct physical *physical = allocate_zeroed(sizeof *physical);

        physical->properties = *properties;
        physical->home = home;
        physical->size = size;
        physical->references = 1;
        LL_PREPEND(physicals, physical);
        *handle = (uintptr_t)physical;
    } else {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_unlock();
    cost_spend(settings()->create_ns + size / memory_page * settings()->page_ns);
    return result;
}

SIM_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct physical *physical;
    uint64_t cost_ns = 0;

    ENTER(cuMemRelease);
    sim_lock();
    physical = find(handle);
    if (physical != NULL && physical->references != 0) {
        physical->references--;
        drop_if_unused(physical, &cost_ns);
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    cost_spend(cost_ns);
    return result;
}

SIM_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle,
                                                void *address) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct mapping *mapping;

    ENTER(cuMemRetainAllocationHandle);
    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    mapping = mapping_at((CUdeviceptr)(uintptr_t)address);
    if (mapping != NULL) {
        mapping->physical->references++;
        *handle = (uintptr_t)mapping->physical;
        result = CUDA_SUCCESS;
    }
    sim_unlock();
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
    if (find(handle) != NULL) {
        *properties = find(handle)->properties;
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}

SIM_EXPORT CUresult cuMemExportToShareableHandle(void *shareable,
                                                 CUmemGenericAllocationHandle handle,
                                                 CUmemAllocationHandleType type,
                                                 unsigned long long flags) {
    ENTER(cuMemExportToShareableHandle);
    (void)shareable;
    (void)handle;
    (void)type;
    (void)flags;
    return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
                                                   void *shareable,
                                                   CUmemAllocationHandleType type) {
    ENTER(cuMemImportFromShareableHandle);
    (void)handle;
    (void)shareable;
    (void)type;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* --- mappings --- */

/* Puts the bytes of `physical` (NULL: none) where the CPU reaches [pointer, pointer + size). */
static unsigned char *show(CUdeviceptr pointer, size_t size, const struct physical *physical) {
    const struct reservation *reservation = reservation_around(pointer, size);
    unsigned char *at = reservation->shadow + (pointer - reservation->address);
    CUdevice device;
    void *shown;

    if (physical == NULL) {
        shown = mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                     -1, 0);
    } else {
        device = physical->properties.location.id;
        shown =
            mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 address_space_file(device), (off_t)(physical->home - address_space_base(device)));
    }
    return shown == MAP_FAILED ? NULL : at;
}

static CUresult map(CUdeviceptr pointer, size_t size, struct physical *physical) {
    struct mapping *mapping;

    if (physical == NULL || size > physical->size || reservation_around(pointer, size) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    LL_FOREACH(mappings, mapping)
    if (mapping->address < pointer + size && pointer < mapping->address + mapping->size)
        return CUDA_ERROR_INVALID_VALUE;
    if (object_memory_take(physical->properties.location.id) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY; /* for its page tables */
    if (show(pointer, size, physical) == NULL) {
        object_memory_give(physical->properties.location.id);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mapping = allocate_zeroed(sizeof *mapping);
    mapping->address = pointer;
    mapping->size = size;
    mapping->physical = physical;
    physical->mappings++;
    LL_PREPEND(mappings, mapping);
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset,
                             CUmemGenericAllocationHandle handle, unsigned long long flags) {
    CUresult result;

    ENTER(cuMemMap);
    if (pointer % memory_page != 0 || size == 0 || size % memory_page != 0 || offset != 0 ||
        flags != 0) /* "offset: currently must be zero" */
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = map(pointer, size, find(handle));
    sim_unlock();
    cost_spend(settings()->map_ns);
    return result;
}

/* [wait:unmap-does-not] vllm#43020: work that still uses the range faults. */
SIM_EXPORT CUresult cuMemUnmap(CUdeviceptr pointer, size_t size) {
    CUresult result = CUDA_SUCCESS;
    struct mapping *mapping, *next;
    uint64_t unspent, cost_ns = 0;

    ENTER(cuMemUnmap);
    sim_lock();
    if (!covered(pointer, size))
        result = CUDA_ERROR_INVALID_VALUE;
    LL_FOREACH_SAFE(mappings, mapping, next) {
        if (result != CUDA_SUCCESS || mapping->address < pointer ||
            mapping->address >= pointer + size)
            continue;
        if (memory_at(mapping->address) != NULL)
            memory_release(memory_at(mapping->address), &host_clock, CALLER, &unspent);
        object_memory_give(mapping->physical->properties.location.id);
        show(mapping->address, mapping->size, NULL);
        mapping->physical->mappings--;
        drop_if_unused(mapping->physical, &cost_ns);
        LL_DELETE(mappings, mapping);
        free(mapping);
    }
    sim_unlock();
    cost_spend(settings()->unmap_ns + cost_ns);
    return result;
}

/* Makes the mapping's block exist or not, as its access rights say. */
static void apply_access(struct mapping *mapping, uintptr_t site) {
    CUdevice device = mapping->physical->properties.location.id;
    struct block *block = memory_at(mapping->address);
    bool accessible = false;
    uint64_t unspent;

    for (size_t i = 0; i < DEVICES_MAX; i++)
        accessible = accessible || mapping->access[i] != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (accessible && block == NULL)
        memory_map(
            MEMORY_MAPPED, device, mapping->address,
            reservation_around(mapping->address, mapping->size)->shadow +
                (mapping->address - reservation_around(mapping->address, mapping->size)->address),
            mapping->size, site);
    else if (!accessible && block != NULL)
        memory_release(block, &host_clock, site, &unspent);
}

static CUresult set_access(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *descriptions,
                           size_t count, uintptr_t site) {
    struct mapping *mapping;

    if (!covered(pointer, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (descriptions[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_NOT_SUPPORTED;
        if (device_check(descriptions[i].location.id) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    LL_FOREACH(mappings, mapping) {
        if (mapping->address < pointer || mapping->address >= pointer + size)
            continue;
        for (size_t i = 0; i < count; i++)
            mapping->access[descriptions[i].location.id] = descriptions[i].flags;
        apply_access(mapping, site);
    }
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemSetAccess(CUdeviceptr pointer, size_t size,
                                   const CUmemAccessDesc *descriptions, size_t count) {
    CUresult result;

    ENTER(cuMemSetAccess);
    if (descriptions == NULL || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    result = set_access(pointer, size, descriptions, count, CALLER);
    sim_unlock();
    cost_spend(settings()->access_ns);
    return result;
}

SIM_EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                   CUdeviceptr pointer) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct mapping *mapping;

    ENTER(cuMemGetAccess);
    if (flags == NULL || location == NULL || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_check(location->id) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    sim_lock();
    mapping = mapping_at(pointer);
    if (mapping != NULL) {
        *flags = mapping->access[location->id];
        result = CUDA_SUCCESS;
    }
    sim_unlock();
    return result;
}
