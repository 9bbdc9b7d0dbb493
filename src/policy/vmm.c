/* Blocks of 2 MiB physical pages under one range of addresses, in the manner of GMLake.
 *
 * Pages are mapped into a region, which is cut and merged as `bfc` does; whole pages are cut from
 * whole pages, what is smaller than a page shares one. A request that no idle block fits is
 * stitched: idle pages are unmapped where they are and mapped anew side by side; only what is
 * lacking then is asked from the driver, with a few pages more so that the next growth needs not
 * ask.
 *
 * Pages are unmapped when the work that used them is over: a wait that is owed is made first, and
 * deferred blocks are not idle. What a block is to the program is not what it is to the driver: see
 * docs/policies.md. */
#include "policy/vmm.h"

#include "policy/region.h"
#include "pool/internal.h"
#include "round.h"

#include <stdlib.h>

enum { PAGE = ROUND_PAGE, LEAST_GROWTH = 8, GROWTH_SHARE = 32 };

void vmm_destroy(struct vmm *vmm) {
    struct reservation *reservation;
    struct page *page;
    while (vmm && (reservation = LIST_FIRST(&vmm->reservations))) {
        LIST_REMOVE(reservation, link);
        free(reservation);
    }
    while (vmm && (page = vmm->cached)) {
        vmm->cached = page->next;
        free(page);
    }
    free(vmm);
}

/* --- pages, on lists that nobody else sees. All below: lock not held --- */

/* Lock not needed. */
static void push(struct page **list, struct page *page) {
    page->next = *list;
    *list = page;
}

/* Lock not needed. */
static size_t count_pages(const struct page *list) {
    size_t count = 0;
    for (; list; list = list->next)
        count++;
    return count;
}

/* A refusal may have a passing reason; after a second one the page is lost. */
static bool release_page(struct pool *pool, CUmemGenericAllocationHandle handle) {
    lock_check_none();
    bool released = pool->driver->mem_release(handle) == CUDA_SUCCESS;
    if (!released)
        released = pool->driver->mem_release(handle) == CUDA_SUCCESS;
    stats_add(STATS_driver_frees, released);
    return released;
}

static size_t release_pages(struct pool *pool, struct page *list) {
    lock_check_none();
    struct page *next;
    size_t released = 0;
    for (; list; list = next) {
        next = list->next;
        released += release_page(pool, list->handle) ? PAGE : 0;
        free(list);
    }
    return released;
}

static CUmemAllocationProp properties(const struct device *device) {
    lock_check_none();
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal}};
}

/* Adds up to `count` new pages to the list; all of them or an error. */
static CUresult create_pages(struct pool *pool, const struct device *device, size_t count,
                             struct page **list) {
    lock_check_none();
    const CUmemAllocationProp wanted = properties(device);
    for (; count > 0; count--) {
        struct page *page = calloc(1, sizeof *page);
        CUresult result = page ? pool->driver->mem_create(&page->handle, PAGE, &wanted, 0)
                               : CUDA_ERROR_OUT_OF_MEMORY;
        if (result != CUDA_SUCCESS) {
            free(page);
            return result;
        }
        stats_add(STATS_driver_allocs, 1);
        push(list, page);
    }
    return CUDA_SUCCESS;
}

/* Unmaps pages of a reservation; their handles go to the list. False without host memory or if the
 * driver refuses: then they stay mapped. */
static bool unmap(struct pool *pool, struct reservation *reservation, uint64_t pointer, size_t size,
                  struct page **list) {
    lock_check_none();
    size_t first = (pointer - reservation->base) / PAGE, count = size / PAGE;
    struct page *taken = NULL, *page;
    for (size_t i = 0; i < count; i++) {
        page = calloc(1, sizeof *page);
        if (!page)
            break;
        page->handle = reservation->handle[first + i];
        push(&taken, page);
    }
    stats_add(STATS_map_calls, 1);
    bool complete =
        count_pages(taken) == count && pool->driver->mem_unmap(pointer, size) == CUDA_SUCCESS;
    while ((page = taken)) {
        taken = page->next;
        complete ? push(list, page) : free(page);
    }
    if (!complete)
        return false;
    for (size_t i = 0; i < count; i++)
        reservation->handle[first + i] = 0;
    return true;
}

/* The reservation has lost `pages` of its mapped ones, and is given back with the last. */
static void drop_mapped(struct pool *pool, struct reservation *reservation, size_t pages) {
    lock_check_none();
    pool_lock(pool);
    reservation->mapped -= pages;
    bool empty = reservation->mapped == 0;
    if (empty)
        LIST_REMOVE(reservation, link);
    pool_unlock(pool);
    if (!empty)
        return;
    pool->driver->mem_address_free(reservation->base, reservation->pages * PAGE);
    free(reservation);
}

/* Maps all pages of the list side by side, in a reservation of their number; on an error the list
 * is as it was. */
static CUresult map_pages(struct pool *pool, const struct device *device, struct page *list,
                          struct reservation **made) {
    lock_check_none();
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device->ordinal},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const struct driver *driver = pool->driver;
    size_t count = count_pages(list), mapped = 0;
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

/* --- the store's side. All below: lock held --- */

/* Cached pages are idle memory like idle blocks. */
static size_t take_cached(struct pool *pool, struct context *context, size_t most,
                          struct page **list) {
    lock_check_held(LOCK_POOL);
    struct vmm *vmm = context->store.vmm;
    size_t count = 0;
    for (; count < most && vmm->cached; count++) {
        struct page *page = vmm->cached;
        vmm->cached = page->next;
        push(list, page);
    }
    ledger_count_unused(pool, context, 0 - count * PAGE);
    return count;
}

static void cache_pages(struct pool *pool, struct context *context, struct page *list) {
    lock_check_held(LOCK_POOL);
    struct page *next;
    ledger_count_unused(pool, context, count_pages(list) * PAGE);
    for (; list; list = next) {
        next = list->next;
        push(&context->store.vmm->cached, list);
    }
}

/* Takes idle blocks of whole pages, smallest first so that large ones stay whole, until `pages` are
 * taken; they are regions of their own then, out of the store, linked as in a release list. */
static struct pool_block *take_idle(struct idle_store *store, size_t pages) {
    lock_check_held(LOCK_POOL);
    struct pool_block *taken = NULL, *block;
    while (pages > 0 && (block = region_find_mapped(store, PAGE))) {
        region_remove(store, block);
        if (block->size / PAGE > pages)
            region_cut(store, block, &(struct fit){.size = pages * PAGE});
        pages -= block->size / PAGE < pages ? block->size / PAGE : pages;
        if (!region_isolate(store, block)) { /* no host memory */
            region_give(store, block);
            break;
        }
        ledger_remove(store->pool, block);
        region_detach(store, block);
        block->by_size.rbe_left = taken;
        taken = block;
    }
    return taken;
}

static void return_idle(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    suballocation_released(block, true);
    ledger_restore(pool, block, BLOCK_IDLE);
}

/* --- the policy --- */

static struct pool_block *take(struct idle_store *store, struct site *site, const struct fit *fit,
                               bool *stolen) {
    lock_check_held(LOCK_POOL);
    const struct fit exact = {.bytes = fit->bytes, .size = fit->size};
    return region_take_up_to(store, site, &exact, fit->size < PAGE ? PAGE : SIZE_MAX, stolen);
}

/* Unmaps what was taken, or keeps it if that cannot be done now. Lock not held. */
static void unmap_taken(struct pool *pool, struct pool_block *taken, struct page **list) {
    lock_check_none();
    bool paid = !taken || wait_try_pay(pool, "cuMemUnmap");
    struct pool_block *next;
    for (; taken; taken = next) {
        next = taken->by_size.rbe_left;
        struct reservation *reservation = taken->region->reservation;
        size_t pages = taken->size / PAGE;
        bool unmapped = paid && unmap(pool, reservation, taken->pointer, taken->size, list);
        if (unmapped)
            drop_mapped(pool, reservation, pages);
        pool_lock(pool);
        if (unmapped) {
            region_destroy(taken);
            ledger_recycle(pool, taken);
        } else {
            return_idle(pool, taken);
        }
        pool_unlock(pool);
    }
}

/* How many pages to create beyond the lacking ones: a share of what is held, as far as the bound on
 * idle memory and a part of what the device has left allow. */
static size_t growth(struct pool *pool, struct context *context, size_t lacking) {
    size_t available = 0, total;
    pool_lock(pool);
    uint64_t held = context->device->live + context->device->idle;
    uint64_t room = idle_bound_room(pool, context->device);
    pool_unlock(pool);
    if (!pool_gate_enter(pool))
        return 0;
    CUresult result = pool->driver->mem_get_info(&available, &total);
    pool_gate_leave(pool);
    size_t wanted = held / GROWTH_SHARE / PAGE;
    size_t spare = result == CUDA_SUCCESS ? available / GROWTH_SHARE / PAGE : 0;
    wanted = wanted > LEAST_GROWTH ? wanted : LEAST_GROWTH;
    wanted = wanted > lacking ? wanted - lacking : 0;
    wanted = wanted < spare ? wanted : spare;
    return wanted < room / PAGE ? wanted : room / PAGE;
}

/* Takes what idle pages there are, up to `wanted`. False if the context has ended. Between begin
 * and end it does not end for this thread: they count as a block that is being released. */
static bool begin(struct pool *pool, struct context *context, size_t wanted, struct page **list) {
    struct pool_block *taken = NULL;
    pool_lock(pool);
    bool ended = context->ended;
    if (!ended) {
        context->device->releasing++;
        size_t cached = take_cached(pool, context, wanted, list);
        taken = take_idle(&context->store, wanted - cached);
    }
    pool_unlock(pool);
    unmap_taken(pool, taken, list);
    return !ended;
}

static void end(struct pool *pool, struct context *context, struct reservation *reservation,
                struct page *spare) {
    pool_lock(pool);
    cache_pages(pool, context, spare);
    if (reservation)
        LIST_INSERT_HEAD(&context->store.vmm->reservations, reservation, link);
    pool_count_released(pool, context->device, 1);
    pool_unlock(pool);
}

/* Adds the pages that are lacking, and to *spare a few more. */
static CUresult complete(struct pool *pool, struct context *context, size_t lacking,
                         struct page **list, struct page **spare) {
    CUresult result = create_pages(pool, context->device, lacking, list);
    size_t more = result == CUDA_SUCCESS ? growth(pool, context, lacking) : 0;
    create_pages(pool, context->device, more, spare);
    return result;
}

static CUresult obtain(struct pool *pool, const struct request *request, size_t least,
                       struct obtained *obtained) {
    lock_check_none();
    struct context *context = request->context;
    size_t wanted = round_up(least, PAGE) / PAGE;
    struct page *list = NULL, *spare = NULL, *page;
    struct reservation *reservation = NULL;
    CUresult result = CUDA_SUCCESS;
    if (!pool->driver->mem_create || !pool->driver->mem_address_reserve ||
        !pool->driver->mem_set_access || wanted > context->device->total / PAGE ||
        !begin(pool, context, wanted, &list))
        return source_obtain(pool, &kind_device, least, obtained);
    size_t lacking = wanted - count_pages(list);
    if (lacking)
        result = complete(pool, context, lacking, &list, &spare);
    if (result == CUDA_SUCCESS)
        result = map_pages(pool, context->device, list, &reservation);
    if (result != CUDA_SUCCESS) {
        release_pages(pool, list); /* the driver gets back what does not suffice */
        list = NULL;
    }
    while ((page = list)) {
        list = page->next; /* its handle is the reservation's now */
        free(page);
    }
    CUdeviceptr base = reservation ? reservation->base : 0; /* it may end with its context */
    end(pool, context, reservation, spare);
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return result;
    if (result != CUDA_SUCCESS)
        return source_obtain(pool, &kind_device, least, obtained);
    *obtained = (struct obtained){.pointer = base,
                                  .size = wanted * PAGE,
                                  .reservation = reservation,
                                  .stitched = lacking == 0};
    return CUDA_SUCCESS;
}

/* For a block that is a region of its own and out of the store. Lock not held. */
static CUresult surrender(struct pool *pool, struct pool_block *block) {
    lock_check_none();
    struct reservation *reservation = block->region->reservation;
    struct page *list = NULL;
    if (!reservation) {
        CUresult freed = pool->driver->mem_free(block->pointer);
        stats_add(STATS_driver_frees, freed == CUDA_SUCCESS);
        return freed;
    }
    if (!wait_try_pay(pool, "cuMemUnmap"))
        return CUDA_ERROR_NOT_READY;
    if (!unmap(pool, reservation, block->pointer, block->size, &list))
        return CUDA_ERROR_NOT_READY;
    drop_mapped(pool, reservation, block->size / PAGE);
    release_pages(pool, list);
    return CUDA_SUCCESS;
}

static struct pool_block *victim(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct pool_block *block = region_largest_mapped(store, PAGE), *whole = region_victim(store);
    if (whole && (!block || whole->size > block->size))
        return whole;
    return block && region_isolate(store, block) ? block : NULL;
}

static size_t take_unused(struct pool *pool, struct context *context, size_t bytes,
                          struct page **list) {
    lock_check_held(LOCK_POOL);
    return take_cached(pool, context, bytes / PAGE + (bytes % PAGE != 0), list) * PAGE;
}

struct vmm *vmm_detach(struct idle_store *store) {
    lock_check_held(LOCK_POOL);
    struct vmm *vmm = store->vmm;
    store->vmm = NULL;
    return vmm;
}

void vmm_release(struct pool *pool, struct vmm *vmm) {
    lock_check_none();
    struct reservation *reservation;
    if (!vmm)
        return;
    LIST_FOREACH (reservation, &vmm->reservations, link) {
        for (size_t i = 0; i < reservation->pages; i++) {
            if (!reservation->handle[i])
                continue;
            if (pool->driver->mem_unmap(reservation->base + i * PAGE, PAGE) != CUDA_SUCCESS)
                pool->driver->mem_unmap(reservation->base + i * PAGE, PAGE);
            release_page(pool, reservation->handle[i]);
        }
        pool->driver->mem_address_free(reservation->base, reservation->pages * PAGE);
    }
    release_pages(pool, vmm->cached);
    vmm->cached = NULL;
    vmm_destroy(vmm);
}

static bool open_store(struct idle_store *store) {
    store->vmm = calloc(1, sizeof *store->vmm);
    return regions_open(store) && store->vmm;
}

static void close_store(struct idle_store *store) {
    vmm_destroy(store->vmm);
    store->vmm = NULL;
    regions_close(store);
}

const struct policy policy_vmm = {
    .name = "vmm",
    .cuts = true,
    .open = open_store,
    .close = close_store,
    .round = round_physical,
    .take = take,
    .give = region_give,
    .remove = region_remove,
    .lose = region_lose,
    .surplus = region_surplus,
    .victim = victim,
    .usage = region_usage,
    .is_valid = region_is_valid,
    .obtain = obtain,
    .surrender = surrender,
    .take_unused = take_unused,
    .release_unused = release_pages,
};
