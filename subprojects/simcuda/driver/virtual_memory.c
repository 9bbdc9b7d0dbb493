#include "virtual_memory.h"

#include "address_runs.h"
#include "allocate.h"
#include "context.h"
#include "cost.h"
#include "lock.h"
#include "memory.h"
#include "object_memory.h"
#include "physical_memory.h"
#include "settings.h"
#include "stream.h"
#include "unmapping.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <uthash.h>

/* Addresses without memory: nobody can touch them. */
struct reservation {
    RB_ENTRY(reservation) node;
    CUdeviceptr address;
    size_t size;
    void *mapped; /* of one apart: what munmap takes, as alignment makes it begin earlier */
    size_t mapped_size;
    unsigned char *shadow; /* as large: where the CPU reaches what is mapped, side by side */
};

/* Invariant: lies within one reservation and overlaps no other mapping; its block exists while a
 * device has access. */
struct mapping {
    RB_ENTRY(mapping) node;
    CUdeviceptr address;
    size_t size;
    struct physical *physical;
    CUmemAccess_flags access[DEVICES_MAX];
};

static int compare_reservations(const struct reservation *a, const struct reservation *b) {
    return (a->address > b->address) - (a->address < b->address);
}

static int compare_mappings(const struct mapping *a, const struct mapping *b) {
    return (a->address > b->address) - (a->address < b->address);
}

RB_HEAD(reservation_tree, reservation);
RB_GENERATE_INTERNAL(reservation_tree, reservation, node, compare_reservations,
                     __attribute__((unused)) static)
RB_HEAD(mapping_tree, mapping);
RB_GENERATE_INTERNAL(mapping_tree, mapping, node, compare_mappings, __attribute__((unused)) static)

static struct reservation_tree reservations = RB_INITIALIZER(&reservations);
static struct mapping_tree mappings = RB_INITIALIZER(&mappings);

/* The last that begins at or before the address. */
static struct reservation *reservation_before(CUdeviceptr address) {
    struct reservation key = {.address = address};
    struct reservation *from = RB_NFIND(reservation_tree, &reservations, &key);

    if (from != NULL && from->address == address)
        return from;
    return from != NULL ? RB_PREV(reservation_tree, &reservations, from)
                        : RB_MAX(reservation_tree, &reservations);
}

static struct mapping *mapping_before(CUdeviceptr address) {
    struct mapping key = {.address = address};
    struct mapping *from = RB_NFIND(mapping_tree, &mappings, &key);

    if (from != NULL && from->address == address)
        return from;
    return from != NULL ? RB_PREV(mapping_tree, &mappings, from) : RB_MAX(mapping_tree, &mappings);
}

/* They do not overlap each other: of those that begin before the range's end, the last ends last.
 */
bool virtual_memory_reserved(CUdeviceptr address, size_t size) {
    sim_check_held();
    const struct reservation *last = size != 0 ? reservation_before(address + size - 1) : NULL;

    return last != NULL && (last->address >= address || address - last->address < last->size);
}

static struct reservation *reservation_around(CUdeviceptr address, size_t size) {
    struct reservation *around = reservation_before(address);

    return around != NULL && size <= around->size &&
                   address - around->address <= around->size - size
               ? around
               : NULL;
}

static struct mapping *mapping_at(CUdeviceptr address) {
    struct mapping *mapping = mapping_before(address);

    return mapping != NULL && address - mapping->address < mapping->size ? mapping : NULL;
}

bool virtual_memory_home(CUdeviceptr address, CUdeviceptr *home) {
    sim_check_held();
    const struct mapping *mapping = mapping_at(address);

    if (mapping == NULL || mapping->physical->home == 0)
        return false;
    *home = mapping->physical->home + (address - mapping->address);
    return true;
}

unsigned long long virtual_memory_handle_types(CUdeviceptr address) {
    sim_check_held();
    const struct mapping *mapping = mapping_at(address);

    return mapping != NULL ? (unsigned long long)mapping->physical->properties.requestedHandleTypes
                           : 0;
}

/* Whether some mapping has a byte of the range. */
static bool is_mapped(CUdeviceptr address, size_t size) {
    const struct mapping *last = mapping_before(address + size - 1);

    return last != NULL && (last->address >= address || address - last->address < last->size);
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

/* --- addresses --- */

/* Reservations lie in one range of the process's addresses, so that their order is the same in
 * every run: where the system would put each depends on what else it has mapped. */
static struct address_runs range;

/* No larger than programs for such a device need: an emulator keeps notes on every page of it, and
 * checkers such as sanitizers leave less room. */
static void make_range(void) {
    static const size_t most = (size_t)1 << 44, least = (size_t)1 << 36;
    static bool tried;
    size_t wished = memory_capacity(0) / memory_page * memory_page * 64;
    uint64_t base = 0;

    wished = wished < least ? least : wished > most ? most : wished;
    for (size_t size = wished; !tried && base == 0 && size >= least; size /= 2)
        if ((base = address_runs_reserve(size)) != 0)
            address_runs_give(&range, base, size);
    tried = true;
}

/* Where the range has no room. */
static bool reserve_apart(struct reservation *reservation, size_t alignment) {
    size_t room = reservation->size + alignment;
    void *mapped = room < alignment ? MAP_FAILED
                                    : mmap(NULL, room, PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (mapped == MAP_FAILED)
        return false;
    reservation->address = ((uintptr_t)mapped + alignment - 1) / alignment * alignment;
    reservation->mapped = mapped;
    reservation->mapped_size = room;
    return true;
}

static void give_addresses(const struct reservation *reservation) {
    if (reservation->mapped != NULL)
        munmap(reservation->mapped, reservation->mapped_size);
    else
        address_runs_give(&range, reservation->address, reservation->size);
}

static CUresult reserve(CUdeviceptr *pointer, size_t size, size_t alignment) {
    struct reservation *reservation = allocate_zeroed(sizeof *reservation);
    uint64_t address;

    make_range();
    reservation->size = size;
    if (address_runs_take(&range, size, alignment, &address)) {
        reservation->address = address;
    } else if (!reserve_apart(reservation, alignment)) {
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    reservation->shadow =
        mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reservation->shadow == MAP_FAILED) {
        give_addresses(reservation);
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    RB_INSERT(reservation_tree, &reservations, reservation);
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

    ENTER(cuMemAddressFree);
    sim_lock();
    reservation = reservation_around(pointer, size);
    if (reservation == NULL || reservation->address != pointer || reservation->size != size)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS && is_mapped(pointer, size))
        result = CUDA_ERROR_INVALID_VALUE; /* still mapped */
    if (result == CUDA_SUCCESS) {
        give_addresses(reservation);
        unmapping_add(reservation->shadow, reservation->size);
        RB_REMOVE(reservation_tree, &reservations, reservation);
        free(reservation);
    }
    sim_unlock();
    cost_spend(settings()->reserve_ns);
    return result;
}

/* --- mappings --- */

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

/* Puts the bytes of `physical` (NULL: none) where the CPU reaches [pointer, pointer + size). Work
 * that has found its way there before they went touches other ones, which are nobody's. */
static unsigned char *show(CUdeviceptr pointer, size_t size, const struct physical *physical) {
    const struct reservation *reservation = reservation_around(pointer, size);
    unsigned char *at = reservation->shadow + (pointer - reservation->address);
    uint64_t offset;
    void *shown;
    int file;

    if (physical == NULL) {
        shown = mmap(at, size, unmapping_is_touched() ? PROT_READ | PROT_WRITE : PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    } else {
        file = physical_file(physical, &offset);
        shown = mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)offset);
    }
    return shown == MAP_FAILED ? NULL : at;
}

static CUresult map(CUdeviceptr pointer, size_t size, struct physical *physical) {
    struct mapping *mapping;

    if (physical == NULL || size > physical->size || reservation_around(pointer, size) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_mapped(pointer, size))
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
    RB_INSERT(mapping_tree, &mappings, mapping);
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
    result = map(pointer, size, physical_find(handle));
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
    for (mapping = result == CUDA_SUCCESS ? mapping_at(pointer) : NULL;
         mapping != NULL && mapping->address < pointer + size; mapping = next) {
        next = RB_NEXT(mapping_tree, &mappings, mapping);
        if (memory_at(mapping->address) != NULL)
            memory_release(memory_at(mapping->address), &host_clock, CALLER, &unspent);
        object_memory_give(mapping->physical->properties.location.id);
        show(mapping->address, mapping->size, NULL);
        mapping->physical->mappings--;
        physical_drop_if_unused(mapping->physical, &cost_ns);
        RB_REMOVE(mapping_tree, &mappings, mapping);
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
            return entry_not_simulated("access from the host");
        if (device_check(descriptions[i].location.id) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    for (mapping = mapping_at(pointer); mapping != NULL && mapping->address < pointer + size;
         mapping = RB_NEXT(mapping_tree, &mappings, mapping)) {
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
