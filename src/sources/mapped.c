#include "sources/mapped.h"

#include "base/lock.h"
#include "base/sizes.h"
#include "counters/stats.h"

#include <stdlib.h>

/* Lock not needed. */
void chunks_add(struct chunks *chunks, struct chunk *chunk) {
    chunk->next = NULL;
    if (chunks->first)
        chunks->last->next = chunk;
    else
        chunks->first = chunk;
    chunks->last = chunk;
    chunks->bytes += chunk->size;
}

CUresult chunks_create(const struct driver *driver, CUdevice ordinal, size_t bytes,
                       struct chunks *chunks) {
    lock_check_none();
    const CUmemAllocationProp wanted = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
    CUmemGenericAllocationHandle handle;
    struct chunk *chunk = calloc(1, sizeof *chunk);
    CUresult result =
        chunk ? driver->mem_create(&handle, bytes, &wanted, 0) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(chunk);
        return result;
    }
    stats_add(STATS_driver_allocs, 1);
    chunk->handle = handle;
    chunk->size = bytes;
    chunks_add(chunks, chunk);
    return CUDA_SUCCESS;
}

/* A refusal may have a passing reason; after a second one the memory is lost. Lock not held. */
static bool release(const struct driver *driver, CUmemGenericAllocationHandle handle) {
    lock_check_none();
    bool released = driver->mem_release(handle) == CUDA_SUCCESS;
    if (!released)
        released = driver->mem_release(handle) == CUDA_SUCCESS;
    stats_add(STATS_driver_frees, released);
    return released;
}

unsigned chunks_release(const struct driver *driver, struct chunks *chunks) {
    lock_check_none();
    struct chunk *chunk, *next;
    unsigned released = 0;
    for (chunk = chunks->first; chunk; chunk = next) {
        next = chunk->next;
        released += release(driver, chunk->handle);
        free(chunk);
    }
    *chunks = (struct chunks){.first = NULL};
    return released;
}

/* A refusal may have a passing reason; after a second one the memory is lost, and the addresses are
 * as long as their reservation is there. Lock not held. */
static void unmap_surely(const struct driver *driver, uint64_t base, size_t bytes) {
    lock_check_none();
    if (driver->mem_unmap(base, bytes) != CUDA_SUCCESS)
        driver->mem_unmap(base, bytes);
}

/* One cuMemSetAccess for all of them. */
CUresult chunks_map(const struct driver *driver, CUdevice ordinal, const struct chunks *chunks,
                    uint64_t base) {
    lock_check_none();
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t mapped = 0, calls = 1;
    CUresult result = CUDA_SUCCESS;
    const struct chunk *chunk = chunks->first;
    for (; chunk && result == CUDA_SUCCESS; chunk = chunk->next, calls++) {
        result = driver->mem_map(base + mapped, chunk->size, 0, chunk->handle, 0);
        mapped += result == CUDA_SUCCESS ? chunk->size : 0;
    }
    if (result == CUDA_SUCCESS)
        result = driver->mem_set_access(base, mapped, &access, 1);
    stats_add(STATS_map_calls, calls);
    if (result != CUDA_SUCCESS && mapped)
        unmap_surely(driver, base, mapped);
    return result;
}

bool chunks_unmap(const struct driver *driver, uint64_t base, size_t bytes) {
    lock_check_none();
    stats_add(STATS_map_calls, 1);
    return driver->mem_unmap(base, bytes) == CUDA_SUCCESS;
}

struct reservation *reservation_make(const struct driver *driver, size_t bytes, size_t more) {
    lock_check_none();
    struct reservation *reservation = calloc(1, sizeof *reservation);
    CUdeviceptr base = 0;
    size_t size = more > bytes ? more : bytes;
    if (!reservation)
        return NULL;
    CUresult result = driver->mem_address_reserve(&base, size, 0, 0, 0);
    if (result != CUDA_SUCCESS && size > bytes)
        result = driver->mem_address_reserve(&base, size = bytes, 0, 0, 0);
    if (result != CUDA_SUCCESS) {
        free(reservation);
        return NULL;
    }
    reservation->base = reservation->end = base;
    reservation->size = size;
    return reservation;
}

void reservation_give_back(const struct driver *driver, struct reservation *reservation) {
    lock_check_none();
    driver->mem_address_free(reservation->base, reservation->size);
    free(reservation);
}

static void forget(struct reservation *reservation) {
    struct chunk *chunk;
    while ((chunk = reservation_first(reservation))) {
        reservation_take(reservation, chunk->base);
        free(chunk);
    }
}

void mapped_destroy(struct mapped *mapped) {
    struct reservation *reservation;
    while (mapped && (reservation = LIST_FIRST(&mapped->reservations))) {
        LIST_REMOVE(reservation, link);
        forget(reservation);
        free(reservation);
    }
    free(mapped);
}

void mapped_release(const struct driver *driver, struct mapped *mapped) {
    lock_check_none();
    struct reservation *reservation;
    struct chunk *chunk;
    while (mapped && (reservation = LIST_FIRST(&mapped->reservations))) {
        LIST_REMOVE(reservation, link);
        while ((chunk = reservation_first(reservation))) {
            reservation_take(reservation, chunk->base);
            unmap_surely(driver, chunk->base, chunk->size);
            release(driver, chunk->handle);
            free(chunk);
        }
        reservation_give_back(driver, reservation);
    }
    free(mapped);
}
