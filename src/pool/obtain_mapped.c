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
#include "by_pointer.h"
#include "keep/region.h"
#include "pool/internal.h"
#include "sources/mapped.h"

#include <stdlib.h>

enum { PAGE = ROUND_PAGE, LEAST_GROWTH = 8, GROWTH_SHARE = 32 };

/* The reservation has lost `pages` of its mapped ones, and is given back with the last. Lock
 * not held. */
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

/* --- the store's side. All below: lock held --- */

/* Cached pages are idle memory like idle blocks. */
static size_t take_cached(struct pool *pool, struct context *context, size_t most,
                          struct page **list) {
    lock_check_held(LOCK_POOL);
    struct mapped *mapped = context->mapped;
    size_t count = 0;
    for (; mapped && count < most && mapped->cached; count++) {
        struct page *page = mapped->cached;
        mapped->cached = page->next;
        pages_push(list, page);
    }
    ledger_count_unused(pool, context, 0 - count * PAGE);
    return count;
}

static void cache_pages(struct pool *pool, struct context *context, struct page *list) {
    lock_check_held(LOCK_POOL);
    struct page *next;
    ledger_count_unused(pool, context, pages_count(list) * PAGE);
    for (; list; list = next) {
        next = list->next;
        pages_push(&context->mapped->cached, list);
    }
}

/* Takes idle blocks of whole pages, smallest first so that large ones stay whole, until `pages` are
 * taken; they are regions of their own then, out of the store, linked as in a release list. */
static struct pool_block *take_idle(struct pool *pool, struct idle_store *store, size_t pages) {
    lock_check_held(LOCK_POOL);
    struct pool_block *taken = NULL, *block;
    while (pages > 0 && (block = region_find_mapped(store, PAGE))) {
        region_remove(store, block);
        if (block->size / PAGE > pages)
            suballocation_cut(pool, block, block->size - pages * PAGE);
        pages -= block->size / PAGE < pages ? block->size / PAGE : pages;
        if (!region_isolate(store, block)) { /* no host memory */
            ledger_keep(pool, block);
            break;
        }
        ledger_remove(pool, block);
        region_detach(store, block);
        block->next_leaving = taken;
        taken = block;
    }
    return taken;
}

static void return_idle(struct pool *pool, struct pool_block *block) {
    lock_check_held(LOCK_POOL);
    suballocation_released(block, true);
    ledger_restore(pool, block, BLOCK_IDLE);
}

/* --- what is done without the lock --- */

/* Unmaps what was taken, or keeps it if that cannot be done now. Lock not held. */
static void unmap_taken(struct pool *pool, struct pool_block *taken, struct page **list) {
    lock_check_none();
    bool paid = !taken || wait_try_pay(pool, "cuMemUnmap");
    struct pool_block *next;
    for (; taken; taken = next) {
        next = taken->next_leaving;
        struct reservation *reservation = taken->region->reservation;
        size_t pages = taken->size / PAGE;
        bool unmapped =
            paid && pages_unmap(pool->driver, reservation, taken->pointer, taken->size, list);
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
    uint64_t held = context->device->held;
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

/* Takes what idle pages there are, up to `wanted`. False if the context has ended, or without host
 * memory. Between begin and end it does not end for this thread: they count as a block that is
 * being released. */
static bool begin(struct pool *pool, struct context *context, size_t wanted, struct page **list) {
    struct pool_block *taken = NULL;
    pool_lock(pool);
    if (!context->ended && !context->mapped)
        context->mapped = calloc(1, sizeof *context->mapped);
    bool begun = !context->ended && context->mapped;
    if (begun) {
        context->device->releasing++;
        size_t cached = take_cached(pool, context, wanted, list);
        taken = take_idle(pool, &context->store, wanted - cached);
    }
    pool_unlock(pool);
    unmap_taken(pool, taken, list);
    return begun;
}

static void end(struct pool *pool, struct context *context, struct reservation *reservation,
                struct page *spare) {
    pool_lock(pool);
    cache_pages(pool, context, spare);
    if (reservation)
        LIST_INSERT_HEAD(&context->mapped->reservations, reservation, link);
    pool_count_released(pool, context->device, 1);
    pool_unlock(pool);
}

/* Adds the pages that are lacking, and to *spare a few more. */
static CUresult complete(struct pool *pool, struct context *context, size_t lacking,
                         struct page **list, struct page **spare) {
    CUresult result = pages_create(pool->driver, context->device->ordinal, lacking, list);
    size_t more = result == CUDA_SUCCESS ? growth(pool, context, lacking) : 0;
    pages_create(pool->driver, context->device->ordinal, more, spare);
    return result;
}

BY_POINTER static CUresult obtain(struct pool *pool, const struct request *request, size_t least,
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
    size_t lacking = wanted - pages_count(list);
    if (lacking)
        result = complete(pool, context, lacking, &list, &spare);
    if (result == CUDA_SUCCESS)
        result = pages_map(pool->driver, context->device->ordinal, list, &reservation);
    if (result != CUDA_SUCCESS) {
        pages_release(pool->driver, list); /* the driver gets back what does not suffice */
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
BY_POINTER static CUresult surrender(struct pool *pool, struct pool_block *block) {
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
    if (!pages_unmap(pool->driver, reservation, block->pointer, block->size, &list))
        return CUDA_ERROR_NOT_READY;
    drop_mapped(pool, reservation, block->size / PAGE);
    pages_release(pool->driver, list);
    return CUDA_SUCCESS;
}

BY_POINTER static size_t release_unused(struct pool *pool, struct page *list) {
    lock_check_none();
    return pages_release(pool->driver, list);
}

BY_POINTER static size_t take_unused(struct pool *pool, struct context *context, size_t bytes,
                                     struct page **list) {
    lock_check_held(LOCK_POOL);
    return take_cached(pool, context, bytes / PAGE + (bytes % PAGE != 0), list) * PAGE;
}

const struct source source_mapped = {
    .obtain = obtain,
    .surrender = surrender,
    .take_unused = take_unused,
    .release_unused = release_unused,
};
