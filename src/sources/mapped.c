#include "sources/mapped.h"

#include "lock.h"
#include "observe/stats.h"
#include "round.h"

#include <stdlib.h>

enum { PAGE = ROUND_PAGE };

/* Lock not needed. */
void pages_push(struct page **list, struct page *page) {
    page->next = *list;
    *list = page;
}

/* Lock not needed. */
size_t pages_count(const struct page *list) {
    size_t count = 0;
    for (; list; list = list->next)
        count++;
    return count;
}

/* A refusal may have a passing reason; after a second one the page is lost. Lock not held. */
static bool release_page(const struct driver *driver, CUmemGenericAllocationHandle handle) {
    lock_check_none();
    bool released = driver->mem_release(handle) == CUDA_SUCCESS;
    if (!released)
        released = driver->mem_release(handle) == CUDA_SUCCESS;
    stats_add(STATS_driver_frees, released);
    return released;
}

size_t pages_release(const struct driver *driver, struct page *list) {
    lock_check_none();
    struct page *next;
    size_t released = 0;
    for (; list; list = next) {
        next = list->next;
        released += release_page(driver, list->handle) ? PAGE : 0;
        free(list);
    }
    return released;
}

static CUmemAllocationProp properties(CUdevice ordinal) {
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal}};
}

/* Adds up to `count` new pages to the list; all of them or an error. */
CUresult pages_create(const struct driver *driver, CUdevice ordinal, size_t count,
                      struct page **list) {
    lock_check_none();
    const CUmemAllocationProp wanted = properties(ordinal);
    for (; count > 0; count--) {
        struct page *page = calloc(1, sizeof *page);
        CUresult result =
            page ? driver->mem_create(&page->handle, PAGE, &wanted, 0) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result != CUDA_SUCCESS) {
            free(page);
            return result;
        }
        stats_add(STATS_driver_allocs, 1);
        pages_push(list, page);
    }
    return CUDA_SUCCESS;
}

/* Unmaps pages of a reservation; their handles go to the list. False without host memory or if the
 * driver refuses: then they stay mapped. */
bool pages_unmap(const struct driver *driver, struct reservation *reservation, uint64_t pointer,
                 size_t size, struct page **list) {
    lock_check_none();
    size_t first = (pointer - reservation->base) / PAGE, count = size / PAGE;
    struct page *taken = NULL, *page;
    for (size_t i = 0; i < count; i++) {
        page = calloc(1, sizeof *page);
        if (!page)
            break;
        page->handle = reservation->handle[first + i];
        pages_push(&taken, page);
    }
    stats_add(STATS_map_calls, 1);
    bool complete = pages_count(taken) == count && driver->mem_unmap(pointer, size) == CUDA_SUCCESS;
    while ((page = taken)) {
        taken = page->next;
        complete ? pages_push(list, page) : free(page);
    }
    if (!complete)
        return false;
    for (size_t i = 0; i < count; i++)
        reservation->handle[first + i] = 0;
    return true;
}

/* Maps all pages of the list side by side, in a reservation of their number; on an error the list
 * is as it was. */
CUresult pages_map(const struct driver *driver, CUdevice ordinal, struct page *list,
                   struct reservation **made) {
    lock_check_none();
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    size_t count = pages_count(list), mapped = 0;
    struct reservation *reservation =
        calloc(1, sizeof *reservation + count * sizeof reservation->handle[0]);
    CUdeviceptr base = 0;
    CUresult result = reservation ? driver->mem_address_reserve(&base, count * PAGE, 0, 0, 0)
                                  : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(reservation);
        return result;
    }
    for (struct page *page = list; page && result == CUDA_SUCCESS; page = page->next) {
        result = driver->mem_map(base + mapped * PAGE, PAGE, 0, page->handle, 0);
        if (result == CUDA_SUCCESS)
            reservation->handle[mapped++] = page->handle;
    }
    if (result == CUDA_SUCCESS)
        result = driver->mem_set_access(base, count * PAGE, &access, 1);
    stats_add(STATS_map_calls, mapped + 1);
    if (result != CUDA_SUCCESS) {
        if (mapped)
            driver->mem_unmap(base, mapped * PAGE);
        driver->mem_address_free(base, count * PAGE);
        free(reservation);
        return result;
    }
    reservation->base = base;
    reservation->pages = reservation->mapped = count;
    *made = reservation;
    return CUDA_SUCCESS;
}

void mapped_destroy(struct mapped *mapped) {
    struct reservation *reservation;
    struct page *page;
    while (mapped && (reservation = LIST_FIRST(&mapped->reservations))) {
        LIST_REMOVE(reservation, link);
        free(reservation);
    }
    while (mapped && (page = mapped->cached)) {
        mapped->cached = page->next;
        free(page);
    }
    free(mapped);
}

void mapped_release(const struct driver *driver, struct mapped *mapped) {
    lock_check_none();
    struct reservation *reservation;
    if (!mapped)
        return;
    LIST_FOREACH (reservation, &mapped->reservations, link) {
        for (size_t i = 0; i < reservation->pages; i++) {
            if (!reservation->handle[i])
                continue;
            if (driver->mem_unmap(reservation->base + i * PAGE, PAGE) != CUDA_SUCCESS)
                driver->mem_unmap(reservation->base + i * PAGE, PAGE);
            release_page(driver, reservation->handle[i]);
        }
        driver->mem_address_free(reservation->base, reservation->pages * PAGE);
    }
    pages_release(driver, mapped->cached);
    mapped->cached = NULL;
    mapped_destroy(mapped);
}
