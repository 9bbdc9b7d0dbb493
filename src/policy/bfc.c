/* TensorFlow's best-fit with coalescing: regions of growing size, best fit with splitting,
 * immediate coalescing, 21 bins from 256 B to 512 MiB.
 *
 * Kept of its origin: all of that, the growth of regions by doubling from 2 MiB with back-pedalling
 * by 0.9 when the device refuses, wholly idle regions given up before an allocation fails.
 * Different: a block is also cut when the waste would exceed the bound, and a region beyond the
 * request leaves an eighth of what the device has left. What a block is to the program is not
 * what it is to the driver: see docs/policies.md. */
#include "policy/region.h"
#include "round.h"

#include "pool/internal.h"

/* Pieces are aligned as the driver's allocations are: textures count on 512 bytes. */
static size_t round_to_unit(size_t bytes) {
    return round_up(bytes, ROUND_SMALL);
}

/* The size of the next region doubles until it suffices, or once it has been used, as far as the
 * bound on idle memory allows. A region that is needed only until deferred blocks are idle is no
 * larger than that takes. */
static size_t region_size(struct pool *pool, const struct request *request, size_t least) {
    const struct idle_store *store = &request->context->store;
    pool_lock(pool);
    bool deferred = request->context->device->idle > store->bytes;
    size_t size = store->regions && !deferred ? store->regions->next_size : least;
    uint64_t room = idle_bound_room(pool, request->context->device);
    pool_unlock(pool);
    while (size < least && size <= SIZE_MAX / 2)
        size *= 2;
    if (size > least && size - least > room)
        size = least + room / ROUND_PAGE * ROUND_PAGE;
    return size > least ? size : least;
}

/* A region leaves an eighth of what the device has beyond the request: less, and launches and
 * others would find nothing; more, and the next request that fits into none has a region of its
 * own, with ends that strand memory, where it fails at all. */
static size_t within_free(struct pool *pool, size_t size, size_t least) {
    size_t available = 0, total;
    if (size == least || !pool_gate_enter(pool))
        return size;
    CUresult result = pool->driver->mem_get_info(&available, &total);
    pool_gate_leave(pool);
    size_t spare = result == CUDA_SUCCESS && available > least ? (available - least) / 8 * 7 : 0;
    size_t most = least + spare / ROUND_PAGE * ROUND_PAGE;
    return size < most ? size : most;
}

static void grow(struct pool *pool, struct idle_store *store, size_t size) {
    pool_lock(pool);
    struct regions *regions = store->regions;
    if (regions && size >= regions->next_size && size <= SIZE_MAX / 2)
        regions->next_size = size > regions->next_size ? size : size * 2;
    pool_unlock(pool);
}

static CUresult obtain(struct pool *pool, const struct request *request, size_t least,
                       struct obtained *obtained) {
    lock_check_none();
    struct idle_store *store = &request->context->store;
    size_t size = within_free(pool, region_size(pool, request, least), least);
    CUresult result = pool->driver->mem_alloc(&obtained->pointer, size);
    while (driver_refused(result) && size > least) {
        size = size / 10 * 9 / ROUND_PAGE * ROUND_PAGE;
        if (size < least)
            size = least;
        result = pool->driver->mem_alloc(&obtained->pointer, size);
    }
    if (result == CUDA_SUCCESS) {
        grow(pool, store, size);
        stats_add(STATS_driver_allocs, 1);
    }
    obtained->size = size;
    return result;
}

const struct policy policy_bfc = {
    .name = "bfc",
    .cuts = true,
    .open = regions_open,
    .close = regions_close,
    .round = round_to_unit,
    .take = region_take,
    .give = region_give,
    .remove = region_remove,
    .lose = region_lose,
    .surplus = region_surplus,
    .victim = region_victim,
    .usage = region_usage,
    .is_valid = region_is_valid,
    .obtain = obtain,
};
